/* What Python wants of a file that it may import; the machine itself is called with ctypes (library.py). */

#include <Python.h>

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_machine", .m_doc = "The vector machine of fused merges.", .m_size = 0};

PyMODINIT_FUNC PyInit__machine(void) { return PyModuleDef_Init(&definition); }
