package bridge

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// maxRead bounds what resources/read gives of a file, in bytes. With
	// base64 it is a message of 22 MiB.
	maxRead = 16 << 20

	// maxReadsAtOnce bounds the files in the daemon's memory: each costs up
	// to four times maxRead until it is sent.
	maxReadsAtOnce = 4

	// readTimeout bounds one resources/read, the wait for others included.
	readTimeout = 2 * time.Minute

	// filesPause is the least time between two notifications that the list
	// of files has changed. The second tells of all changes since the first.
	filesPause = 200 * time.Millisecond

	// filesTemplate says what the addresses of files look like.
	filesTemplate = "bridged://session/{id}/files/{+name}"

	// maxLinks bounds the files that one result names.
	maxLinks = 32
)

// maxData bounds the names of the user's data in a text, in bytes.
const maxData = 600

// dataLine tells an agent what data of the user's its code can read.
func dataLine(data []string) string {
	var shown []string
	size := 0
	for _, path := range data {
		if size += len(path) + 2; size > maxData {
			break
		}
		shown = append(shown, path)
	}
	switch rest := len(data) - len(shown); {
	case len(data) == 0:
		return ""
	case rest > 0:
		return fmt.Sprintf("\n\nThe user's data, read-only: %s, and %d more.", strings.Join(shown, ", "), rest)
	}
	return "\n\nThe user's data, read-only: " + strings.Join(shown, ", ") + "."
}

// addFiles makes what the sessions' code publishes resources of a server.
func (s *session) addFiles(srv *server.MCPServer, hooks *server.Hooks) {
	hooks.AddAfterListResources(func(_ context.Context, _ any, _ *mcp.ListResourcesRequest, list *mcp.ListResourcesResult) {
		for _, f := range s.files() {
			list.Resources = append(list.Resources, resourceOf(f))
		}
	})
	srv.AddResourceTemplate(mcp.NewResourceTemplate(filesTemplate, "published files",
		mcp.WithTemplateDescription("Files that code in run_python has handed over with publish(path). resources/list names them.")), s.readFile)
}

// files returns what can be read, of all Python sessions of the connection.
func (s *session) files() []sandbox.File {
	var list []sandbox.File
	for _, ws := range s.pys.workspaces() {
		list = append(list, ws.Files()...)
	}
	return list
}

func resourceOf(f sandbox.File) mcp.Resource {
	r := mcp.NewResource(f.URI, f.Name, mcp.WithMIMEType(f.MIME))
	r.Size = &f.Size
	return r
}

// A reading is what a request that reads a file leaves behind for its answer.
type reading struct {
	code    int         // of the error, 0 for the usual one
	asks    *needsInput // what the answer asks the client; nil for nothing
	release func()      // frees the place among the reads, once the answer is sent
}

type readingKey struct{}

// readFile answers resources/read for a file. Only files of this connection's
// own sessions are looked for.
func (s *session) readFile(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("reading took longer than %s", readTimeout))
	defer cancel()
	select {
	case s.srv.reads <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r, _ := ctx.Value(readingKey{}).(*reading)
	r.release = func() { <-s.srv.reads }
	var data bytes.Buffer
	f, err := s.copyFile(ctx, &data, canonical(req.Params.URI))
	switch {
	case errors.Is(err, sandbox.ErrNoFile):
		r.code = mcp.RESOURCE_NOT_FOUND
		if mcp.IsModernProtocol(server.RequestProtocolVersion(ctx)) {
			r.code = mcp.INVALID_PARAMS
		}
		return nil, fmt.Errorf("nothing is published at %s (any more): a file goes with its sandbox, on a reset, a crash or a long idle time. Run the code that publishes it again", brief(req.Params.URI))
	case errors.Is(err, sandbox.ErrFileSize):
		return nil, fmt.Errorf("%s has %d bytes and resources/read gives at most %d: publish less, or have files saved on the user's machine, in the folder that the setting files.output (MCP_BRIDGE_OUTPUT_DIR) names", f.Name, f.Size, maxRead)
	case err != nil:
		return nil, err
	}
	return []mcp.ResourceContents{contentsOf(f, req.Params.URI, data.Bytes())}, nil
}

// copyFile looks for a file in all Python sessions.
func (s *session) copyFile(ctx context.Context, w io.Writer, uri string) (sandbox.File, error) {
	for _, ws := range s.pys.workspaces() {
		if f, err := ws.CopyFile(ctx, w, uri, maxRead); !errors.Is(err, sandbox.ErrNoFile) {
			return f, err
		}
	}
	return sandbox.File{}, sandbox.ErrNoFile
}

// canonical undoes what a client may have done to an address: an escape more or
// less is the same name.
func canonical(uri string) string {
	base, name, ok := cutLast(uri, "/")
	if !ok {
		return uri
	}
	if plain, err := url.PathUnescape(name); err == nil {
		return base + "/" + sandbox.EscapeName(plain)
	}
	return uri
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// contentsOf is text where a client can show it as such, and else base64.
func contentsOf(f sandbox.File, uri string, data []byte) mcp.ResourceContents {
	if isText(f.MIME) && utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
		return mcp.TextResourceContents{URI: uri, MIMEType: f.MIME, Text: string(data)}
	}
	return mcp.BlobResourceContents{URI: uri, MIMEType: f.MIME, Blob: base64.StdEncoding.EncodeToString(data)}
}

// isText reports whether a type is one of text.
func isText(mime string) bool {
	switch mime {
	case "application/json", "application/jsonl", "application/yaml", "application/toml", "application/xml",
		"application/javascript", "application/sql":
		return true
	}
	return strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "+json") || strings.HasSuffix(mime, "+xml")
}

// links are what a result says of published files: links to resources for
// clients that know these, and else text.
func (v view) links(files []sandbox.File) (content []mcp.Content, left []string) {
	if n := len(files) - maxLinks; n > 0 {
		left = append(left, fmt.Sprintf("%d more files were published: resources/list names them", n))
		files = files[:maxLinks]
	}
	for _, f := range files {
		if !v.structured {
			content = append(content, mcp.NewTextContent(fmt.Sprintf("File %s (%s, %d bytes): %s", f.Name, f.MIME, f.Size, f.URI)))
			continue
		}
		link := mcp.NewResourceLink(f.URI, f.Name, "", f.MIME)
		link.Size = &f.Size
		content = append(content, link)
	}
	return content, left
}

// A structuredFile is a published file in structuredContent.
type structuredFile struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

func structuredFiles(files []sandbox.File) []structuredFile {
	var list []structuredFile
	for _, f := range files[:min(len(files), maxLinks)] {
		list = append(list, structuredFile{f.URI, f.Name, f.Size})
	}
	return list
}
