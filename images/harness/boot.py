import os, sys
def take(n):
    b = b""
    while len(b) < n:
        c = os.read(0, n - len(b))
        if not c:
            sys.exit("bridged: stdin ended before the harness arrived")
        b += c
    return b
l = b""
while True:
    l += take(1)
    if l.endswith(b"\n"):
        w = l[max(l.rfind(b"bridged-boot "), 0):].split()
        if len(w) in (3, 6) and w[0] == b"bridged-boot":
            break
        l = b""
    l = l[-256:]
import base64, json, types, zlib
s = json.loads(zlib.decompress(base64.b64decode(take(int(w[2])))))
p = "bridged_harness"
import builtins
for n, c in s:
    q = p if n == "__init__" else p + "." + n
    m = types.ModuleType(q)
    m.__package__ = p
    m.__path__ = []
    m.__builtins__ = dict(vars(builtins))
    m.__file__ = "<bridged/%s>" % n
    sys.modules[q] = m
    if q != p:
        setattr(sys.modules[p], n, m)
    exec(compile(c, m.__file__, "exec"), m.__dict__)
sys.modules[p + ".main"].start(*(x.decode() for x in w[1:2] + w[3:]))
