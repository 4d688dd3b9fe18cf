// The modules of base/module_test.cpp: TANDEM_TEST_VERSION is the version that this one says it has.
#include "base/module.h"

#ifdef TANDEM_TEST_VERSION
TANDEM_MODULE_EXPORT const char* tandem_module_version() {
    return TANDEM_TEST_VERSION;
}
#else
TANDEM_MODULE_VERSION()
#endif

TANDEM_MODULE_EXPORT int tandem_test() {
    return 42;
}
