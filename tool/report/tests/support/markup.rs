//! A page as elements.

/// Checks that every element ends where it must, and returns the names of all elements.
pub(crate) fn elements(page: &str) -> Vec<String> {
    let (mut open, mut names): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    // The style sheet is no markup.
    let (head, rest) = page.split_once("<style>").expect("a style sheet");
    let (_, body) = rest.split_once("</style>").expect("it ends");
    for tag in [head, body].iter().flat_map(|part| part.split('<').skip(1)) {
        let tag = tag.split('>').next().expect("a tag ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else if !tag.starts_with('!') {
            let name = tag.split([' ', '/']).next().unwrap_or_default().to_owned();
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if !tag.ends_with('/') {
                open.push(name.clone());
            }
            names.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
    names
}
