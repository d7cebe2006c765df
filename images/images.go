// Package images holds what runs inside a sandbox, embedded in the binary: the
// Python harness, and the recipes of the images that it runs in.
//
// The harness (see [Boot] and [Payload]) is never part of an image. It travels
// over a container's stdin, so that any image with Python 3.9 or later will do
// and a daemon never meets a harness of another version.
//
// There are two recipes for the same set of packages. The Containerfile takes
// them from registries, and [ContextTar] is its build context. The script that
// [DebianScript] returns makes a root file system from Debian packages, for
// machines that reach a Debian mirror and no registry.
package images

import (
	"archive/tar"
	"bytes"
	"embed"
	"fmt"
	"io"
	"sync"
)

//go:embed Containerfile requirements.txt debian.sh
var recipes embed.FS

// contextFiles are the files of the build context, in the order of the tar.
var contextFiles = []string{"Containerfile", "requirements.txt"}

// ContextTar returns the Containerfile's build context, an uncompressed tar.
// It has the same bytes every time, so that engines find their cached layers.
func ContextTar() io.Reader { return bytes.NewReader(contextTar()) }

// DebianScript returns the bash script that builds a root file system with
// mmdebstrap. Its head says how it is called.
func DebianScript() []byte { return recipe("debian.sh") }

var contextTar = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range contextFiles {
		text := recipe(name)
		// No times, owners or modes of the machine that built us.
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			panic(fmt.Sprintf("packing the build context: %v", err)) // a buffer takes all
		}
	}
	if err := w.Close(); err != nil {
		panic(fmt.Sprintf("packing the build context: %v", err))
	}
	return b.Bytes()
})

func recipe(name string) []byte {
	text, err := recipes.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return text
}
