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
	"__init__", "wire", "seccomp", "posture", "shared", "door", "journal", "kept", "capture", "control", "children",
	"brief", "tables", "pictures", "figures", "markup", "display", "advice", "source", "trace", "notebook", "hooks",
	"files", "awaits", "errors", "convert", "jsonable", "data", "rpc", "steps", "copies", "memory", "blocks", "params", "tools", "terse", "offers", "proxies", "mcpmod",
	"texts", "lift", "saved", "interrupts", "adapt", "loop", "threads", "values", "run", "main",
}

// Boot is the program for `python3 -c` that takes the harness from stdin.
func Boot() string { return source("boot") }

// Relay is the program for `python3 -c` by which a daemon that takes a sandbox
// over reaches the harness in it.
func Relay() string { return source("relay") }

func source(name string) string {
	src, err := harness.ReadFile("harness/" + name + ".py")
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
		list = append(list, [2]string{name, source(name)})
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
