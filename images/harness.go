package images

import (
	"bytes"
	"compress/zlib"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed harness/*.py
var harness embed.FS

// modules are the harness's modules in the order in which each can be run:
// a module comes after those that it imports.
var modules = []string{
	"__init__", "wire", "seccomp", "posture", "shared", "kept", "capture", "control", "children",
	"brief", "tables", "pictures", "figures", "markup", "display", "advice", "source", "trace", "notebook", "hooks",
	"files", "awaits", "rpc", "tools", "mcpmod", "interrupts", "adapt", "loop", "threads", "run", "main",
}

// Boot is the program for `python3 -c` that takes the harness from stdin.
func Boot() string {
	src, err := harness.ReadFile("harness/boot.py")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(src)
}

// Payload returns what Boot reads: the harness's modules, as base64 of
// compressed JSON, so that it holds no control byte.
var Payload = sync.OnceValue(func() []byte {
	list := make([][2]string, 0, len(modules))
	for _, name := range modules {
		src, err := harness.ReadFile("harness/" + name + ".py")
		if err != nil {
			panic(err) // it is embedded
		}
		list = append(list, [2]string{name, string(src)})
	}
	out, err := pack(list)
	if err != nil {
		panic(fmt.Sprintf("packing the harness: %v", err)) // no input decides this
	}
	return out
})

func pack(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b.Bytes()), nil
}
