/* What Python wants of a compiled file that it may import; its functions are called with ctypes (native.py).
   MODULE is the extension's name, from setup.py. */

#include <Python.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define JOIN_OF(first, second) first##second
#define JOIN(first, second) JOIN_OF(first, second)

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = TEXT(MODULE), .m_doc = "Functions for ctypes.", .m_size = 0};

PyMODINIT_FUNC JOIN(PyInit_, MODULE)(void) { return PyModuleDef_Init(&definition); }
