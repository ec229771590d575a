"""Ways past the audit hook and out of Python, each followed by what it was for: reading the label."""

from __future__ import annotations

READ = "open('LABEL').read()"

TRICKS = {
    "name of the library": f"eval(compile({READ!r}, os.__file__, 'eval'))",
    "name of frozen code": f"eval(compile({READ!r}, '<frozen importlib._bootstrap>', 'eval'))",
    "function with another name": "renamed(os.__file__)('LABEL')",
    "function of the empty name": "renamed('')('LABEL')",
    "old reference": "io.open.__self__.open('LABEL').read()",
    "opener": "open('LABEL', opener=lambda p, f: raw_open(p)).read()",
    "number for a path": "open(raw_open('LABEL')).read()",
    "path that changes": "(lambda path: (os.fspath(path), open(path).read())[1])(Changing('table.csv', 'LABEL'))",
    "path of bytes": "open(b'LABEL').read()",
    "class of text": "open(type('S', (str,), {})('LABEL')).read()",
    "thread": "in_thread(lambda: open('LABEL').read())",
    "generator": "next(open(p).read() for p in ['LABEL'])",
    "callback of a sort": "sorted([1, 2], key=lambda _: open('LABEL').read())[0]",
    "finalizer": "dropped('LABEL')",
    "warning": "shown_by_warning('LABEL')",
    "hook for exceptions": "hooked('LABEL')",
    "import of a file": "imported('LABEL')",
    "import by spec": "__import__('importlib.util').util.spec_from_file_location('x', 'LABEL').loader.exec_module(sys)",
    "import from a zip": "__import__('zipimport').zipimporter('LABEL')",
    "path for imports": "(sys.path.insert(0, 'FOLDER'), __import__('labels'))",
    "hook for paths": "sys.path_hooks[-1]('FOLDER').find_spec('labels').loader.get_data('LABEL')",
    "module in C": "__import__('_ctypes').dlopen('LABEL', 2)",
    "module of its own": "native()",
    "module of its own by dlopen": "past('libc.dlopen(%r, 2)' % native_file().encode()) or -1",
    "byte code of its own": "bytecode('LABEL')",
    "Python in Python": "past('ctypes.pythonapi.PyRun_SimpleString(b\"x = open(chr(47) + ' + repr('LABEL'[1:]) + ').read()\")')",
    "hooks cleared": "(past('ctypes.pythonapi._PySys_ClearAuditHooks()'), open('LABEL').read())[1]",
    "file of C": "past('ctypes.pythonapi.Py_fopen_obj') and 1/0",
    "descriptor of the parent": "os.read(9, 9)",
    "all descriptors": "[os.fstat(n) for n in range(3, 64)]",
    "copied descriptor": "os.read(os.dup(0), 9) or -1",
    "shared library of sqlite": "__import__('sqlite3').connect(':memory:').load_extension('LABEL')",
    "sqlite reading": "__import__('sqlite3').connect('file:LABEL?mode=ro&immutable=1', uri=True).execute('select 1').fetchall()",
    "pickle": "__import__('pickle').loads(b\"cbuiltins\\nopen\\n(VLABEL\\ntR.\").read()",
    "marshal": "eval(__import__('marshal').loads(__import__('marshal').dumps(compile("
    + repr(READ)
    + ", 'x', 'eval'))))",
    "code object": "type(renamed)(compile("
    + repr(READ)
    + ", os.__file__, 'eval').replace(co_filename=os.__file__), globals())()",
    "pandas query": "__import__('pandas').DataFrame({'a': [1]}).eval('@open(\"LABEL\").read()')",
    "pandas pickle": "__import__('pandas').read_pickle('LABEL')",
    "pandas excel": "__import__('pandas').read_excel('LABEL')",
    "pandas fixed": "__import__('pandas').read_fwf('LABEL').columns[0]",
    "pandas json": "__import__('pandas').read_json('LABEL')",
    "pandas parquet": "__import__('pandas').read_parquet('LABEL')",
    "numpy load": "__import__('numpy').load('LABEL', allow_pickle=True)",
    "numpy genfromtxt": "__import__('numpy').genfromtxt('LABEL', dtype=str)",
    "numpy f2py": "__import__('numpy.f2py').f2py.compile('end')",
    "scipy": "__import__('scipy.io').io.loadmat('LABEL')",
    "joblib": "__import__('joblib').load('LABEL')",
    "matplotlib": "__import__('matplotlib.image').image.imread('LABEL')",
    "xml": "__import__('xml.etree.ElementTree').etree.ElementTree.parse('LABEL')",
    "csv": "next(__import__('csv').reader(open('LABEL')))",
    "configuration": "__import__('configparser').ConfigParser().read_file(open('LABEL'))",
    "shelf": "__import__('shelve').open('LABEL')",
    "dbm": "__import__('dbm.dumb').dumb.open('LABEL', 'c')",
    "mailbox": "__import__('mailbox').mbox('LABEL', create=False)[0]",
    "compressed": "__import__('gzip').open('LABEL').read()",
    "bytes compiled": "__import__('py_compile').compile('LABEL', 'c.pyc', doraise=True)",
    "difference": "__import__('filecmp').cmp('LABEL', 'table.csv', shallow=False)",
    "editor of lines": "__import__('fileinput').FileInput('LABEL', inplace=True).readline()",
    "logging to it": "__import__('logging').FileHandler('LABEL')",
    "trace into it": "__import__('trace').Trace(outfile='LABEL')  and open('LABEL')",
    "faults into it": "__import__('faulthandler').enable(open('LABEL', 'w'))",
    "profile into it": "__import__('cProfile').runctx('1', {}, {}, 'LABEL')",
    "temporary file there": "tempfile.NamedTemporaryFile(dir='FOLDER')",
    "working folder there": "os.chdir('FOLDER')",
    "working folder by descriptor": "os.fchdir(os.open('FOLDER', 0))",
}


def tricks() -> dict[str, str]:
    return dict(TRICKS)
