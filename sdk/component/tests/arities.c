/* For c_header.rs: functions of every number of parameters, imported and exported. */
#include "bulkhead_component.h"

BULKHEAD_ENTRY(run)

BULKHEAD_IMPORT(in0)
BULKHEAD_IMPORT(in1, a)
BULKHEAD_IMPORT(in2, a, b)
BULKHEAD_IMPORT(in3, a, b, c)
BULKHEAD_IMPORT(in4, a, b, c, d)
BULKHEAD_IMPORT(in5, a, b, c, d, e)
BULKHEAD_IMPORT(in6, a, b, c, d, e, f)
BULKHEAD_IMPORT(in7, a, b, c, d, e, f, g)
BULKHEAD_IMPORT(in8, a, b, c, d, e, f, g, h)

BULKHEAD_EXPORT(out0, token) { return in0().value; }
BULKHEAD_EXPORT(out1, token, a) { return in1(a).value; }
BULKHEAD_EXPORT(out2, token, a, b) { return in2(a, b).value; }
BULKHEAD_EXPORT(out3, token, a, b, c) { return in3(a, b, c).value; }
BULKHEAD_EXPORT(out4, token, a, b, c, d) { return in4(a, b, c, d).value; }
BULKHEAD_EXPORT(out5, token, a, b, c, d, e) { return in5(a, b, c, d, e).value; }
BULKHEAD_EXPORT(out6, token, a, b, c, d, e, f) { return in6(a, b, c, d, e, f).value; }
BULKHEAD_EXPORT(out7, token, a, b, c, d, e, f, g) { return in7(a, b, c, d, e, f, g).value; }
BULKHEAD_EXPORT(out8, token, a, b, c, d, e, f, g, h) { return in8(a, b, c, d, e, f, g, h).value; }

static void run(uint64_t argument) { bulkhead_print_number(argument); }
