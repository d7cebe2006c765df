package bridge

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
)

func fileAt(handle, name, mime string, size int64) sandbox.File {
	return sandbox.File{URI: "bridged://session/" + handle + "/files/" + sandbox.EscapeName(name), Name: name, MIME: mime, Size: size}
}

// publishing returns a bench whose code publishes the file that it names.
func publishing() *bench {
	b := &bench{contents: map[string]string{}}
	b.run = func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		f := fileAt("S", req.Code, "text/plain", 3)
		b.publish(f, "abc")
		return sandbox.Result{Status: sandbox.StatusOK, Files: []sandbox.File{f}}, nil
	}
	return b
}

func readURI(c *client.Client, uri string) (*mcp.ReadResourceResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	req := mcp.ReadResourceRequest{}
	req.Params.URI = uri
	return c.ReadResource(ctx, req)
}

func TestPublishedFilesAreResourcesForClientsOfEveryVersion(t *testing.T) {
	for _, version := range mcp.ValidProtocolVersions {
		t.Run(version, func(t *testing.T) {
			b := publishing()
			_, path := start(t, b.open, Options{})
			c, init := mcpClient(t, path, version)
			if init.Capabilities.Resources == nil || !init.Capabilities.Resources.ListChanged {
				t.Errorf("capabilities: got %+v", init.Capabilities.Resources)
			}
			changed := make(chan struct{}, 10)
			c.OnNotification(func(n mcp.JSONRPCNotification) {
				if n.Method == mcp.MethodNotificationResourcesListChanged {
					changed <- struct{}{}
				}
			})
			res := call(t, c, map[string]any{"code": "a b.txt"}, nil)
			uri := "bridged://session/S/files/a%20b.txt"
			switch first := res.Content[0].(type) {
			case mcp.ResourceLink:
				if version < "2025-06-18" || first.URI != uri || first.Name != "a b.txt" || first.MIMEType != "text/plain" || *first.Size != 3 {
					t.Errorf("got %+v", first)
				}
			case mcp.TextContent:
				if version >= "2025-06-18" || !strings.Contains(first.Text, uri) {
					t.Errorf("got %+v", first)
				}
			default:
				t.Errorf("got %T", first)
			}
			list, err := c.ListResources(context.Background(), mcp.ListResourcesRequest{})
			if err != nil || len(list.Resources) != 3 {
				t.Fatalf("resources/list: got %+v, %v", list, err)
			}
			last := list.Resources[2]
			if last.URI != uri || last.Name != "a b.txt" || last.MIMEType != "text/plain" || *last.Size != 3 {
				t.Errorf("resources/list: got %+v", last)
			}
			templates, err := c.ListResourceTemplates(context.Background(), mcp.ListResourceTemplatesRequest{})
			if err != nil || len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate.Raw() != filesTemplate {
				t.Errorf("resources/templates/list: got %+v, %v", templates, err)
			}
			read, err := readURI(c, uri)
			if err != nil {
				t.Fatal(err)
			}
			want := []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/plain", Text: "abc"}}
			if diff := cmp.Diff(want, read.Contents); diff != "" {
				t.Errorf("resources/read (-want +got):\n%s", diff)
			}
			if version < "2026-07-28" {
				<-changed // the test hangs without it
			}
		})
	}
}

func TestReadingFiles(t *testing.T) {
	b := publishing()
	_, path := start(t, b.open, Options{})
	c, _ := mcpClient(t, path, "2025-06-18")
	call(t, c, map[string]any{"code": "x"}, nil)
	for _, row := range []struct {
		name, mime, content string
		uri                 string // "" is the file's own
		text                bool
		err                 string
	}{
		{name: "t.txt", mime: "text/plain", content: "é\n", text: true},
		{name: "t.json", mime: "application/json", content: "{}", text: true},
		{name: "t.svg", mime: "image/svg+xml", content: "<svg/>", text: true},
		{name: "t.html", mime: "text/html", content: "", text: true},
		{name: "broken.txt", mime: "text/plain", content: "\xff"},
		{name: "nul.txt", mime: "text/plain", content: "a\x00"},
		{name: "p.png", mime: "image/png", content: "png"},
		{name: "no type", mime: "", content: "x"},
		{name: "odd (1) ü%.txt", mime: "text/plain", content: "odd", text: true},
		{name: "less (1).txt", mime: "text/plain", content: "odd", text: true, uri: "bridged://session/S/files/less%20(1).txt"},
		{name: "more.txt", mime: "text/plain", content: "odd", text: true, uri: "bridged://session/S/files/%6Dore.txt"},
		{name: "lost.txt", uri: "bridged://session/OTHER/files/lost.txt", err: "Run the code that publishes it again"},
		{name: "gone.txt", uri: "bridged://session/S/files/never.txt", err: "nothing is published at"},
		{name: "up.txt", uri: "bridged://session/S/files/../../../etc/passwd", err: "nothing is published at"},
		{name: "elsewhere", uri: "file:///etc/passwd", err: "not found"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := fileAt("S", row.name, row.mime, int64(len(row.content)))
			b.publish(f, row.content)
			uri := row.uri
			if uri == "" {
				uri = f.URI
			}
			res, err := readURI(c, uri)
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("got %+v, %v, want an error that says %q", res, err, row.err)
				}
				return
			}
			if err != nil || len(res.Contents) != 1 {
				t.Fatalf("got %+v, %v", res, err)
			}
			var got mcp.ResourceContents = mcp.TextResourceContents{URI: uri, MIMEType: row.mime, Text: row.content}
			if !row.text {
				got = mcp.BlobResourceContents{URI: uri, MIMEType: row.mime, Blob: base64.StdEncoding.EncodeToString([]byte(row.content))}
			}
			if diff := cmp.Diff(got, res.Contents[0]); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFileThatIsTooLargeNamesTheSetting(t *testing.T) {
	b := publishing()
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.send(callLine(`1`, `{"code":"x"}`))
	a.reply()
	b.publish(fileAt("S", "big", "text/plain", maxRead+1), "")
	a.send(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"bridged://session/S/files/big"}}`)
	if r := a.reply(); r.Error == nil || !strings.Contains(r.Error.Message, "files.output (MCP_BRIDGE_OUTPUT_DIR)") || r.Error.Code != codeInternal {
		t.Errorf("got %+v", r.Error)
	}
	a.send(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"bridged://session/S/files/none"}}`)
	if r := a.reply(); r.Error == nil || r.Error.Code != mcp.RESOURCE_NOT_FOUND {
		t.Errorf("a file that is not there: got %+v, want code %d", r.Error, mcp.RESOURCE_NOT_FOUND)
	}
}

// No agent may read another's files, whatever address it knows.
func TestFilesAreAConnectionsOwn(t *testing.T) {
	benches := []*bench{publishing(), publishing()}
	opened := 0
	open := func(context.Context, Hello, *Agent) (Workspace, error) {
		opened++
		return benches[opened-1], nil
	}
	_, path := start(t, open, Options{})
	one, _ := mcpClient(t, path, "2025-06-18")
	call(t, one, map[string]any{"code": "secret"}, nil)
	two, _ := mcpClient(t, path, "2025-06-18")
	if res := call(t, two, map[string]any{"code": "own"}, nil); res.IsError {
		t.Fatalf("got %+v", res)
	}
	if _, err := readURI(two, "bridged://session/S/files/secret"); err == nil {
		t.Error("another connection's file was read")
	}
	list, err := two.ListResources(context.Background(), mcp.ListResourcesRequest{})
	if err != nil || len(list.Resources) != 3 || list.Resources[2].Name != "own" {
		t.Errorf("got %+v, %v", list, err)
	}
	if _, err := readURI(one, "bridged://session/S/files/secret"); err != nil {
		t.Errorf("one's own file: %v", err)
	}
}

// All Python sessions of a connection show their files.
func TestFilesOfNamedSessionsAreListed(t *testing.T) {
	opened := 0
	open := func(context.Context, Hello, *Agent) (Workspace, error) {
		b := publishing()
		run, n := b.run, opened
		b.run = func(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
			req.Code = fmt.Sprintf("%s-%d", req.Code, n)
			return run(ctx, req, output)
		}
		opened++
		return b, nil
	}
	_, path := start(t, open, Options{})
	c, _ := mcpClient(t, path, "2025-06-18")
	call(t, c, map[string]any{"code": "x"}, nil)
	call(t, c, map[string]any{"code": "x", "session": "other"}, nil)
	list, err := c.ListResources(context.Background(), mcp.ListResourcesRequest{})
	if err != nil || len(list.Resources) != 4 {
		t.Fatalf("got %+v, %v", list, err)
	}
	for _, r := range list.Resources[2:] {
		if _, err := readURI(c, r.URI); err != nil {
			t.Errorf("reading %s: %v", r.URI, err)
		}
	}
}

// Clients of 2026-07-28 hear of changes only if they ask, under their own ids.
func TestSubscribersHearOfFiles(t *testing.T) {
	b := publishing()
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	a.send(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true},` + meta + `}}`)
	if line := a.recv(); !strings.Contains(line, `"notifications":{"resourcesListChanged":true}`) || !strings.Contains(line, `"io.modelcontextprotocol/subscriptionId":"sub"`) {
		t.Errorf("acknowledgement: got %s", line)
	}
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"f"},` + meta + `}}`)
	heard, answered := false, false
	for !heard || !answered {
		line := a.recv()
		switch {
		case strings.Contains(line, mcp.MethodNotificationResourcesListChanged):
			heard = true
			if !strings.Contains(line, `"io.modelcontextprotocol/subscriptionId":"sub"`) {
				t.Errorf("notification: got %s", line)
			}
		case strings.Contains(line, `"id":1`):
			answered = true
			if !strings.Contains(line, `"type":"resource_link"`) {
				t.Errorf("answer: got %s", line)
			}
		default:
			t.Errorf("got %s", line)
		}
	}
	a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"sub"}}`)
	for { // the subscription has ended once its id is free again
		a.send(`{"jsonrpc":"2.0","id":"sub","method":"resources/list","params":{` + meta + `}}`)
		line := a.recv()
		if strings.Contains(line, "not answered yet") {
			continue
		}
		if !strings.Contains(line, `"id":"sub"`) || !strings.Contains(line, "bridged://session/S/files/f") {
			t.Errorf("resources/list: got %s", line)
		}
		break
	}
	b.publish(fileAt("S", "g", "", 0), "")
	a.send(`{"jsonrpc":"2.0","id":3,"method":"ping","params":{` + meta + `}}`)
	for {
		line := a.recv()
		if strings.Contains(line, `"id":3`) {
			break
		}
		t.Errorf("after the subscription's end: got %s", line)
	}
}

func TestAgentsAreToldOfTheUsersData(t *testing.T) {
	_, path := start(t, (&bench{}).open, Options{Data: []string{"/data", "/one.txt"}})
	c, init := mcpClient(t, path, "2025-06-18")
	const want = "The user's data, read-only: /data, /one.txt."
	if !strings.HasSuffix(init.Instructions, want) {
		t.Errorf("instructions: got %q", init.Instructions)
	}
	res, err := readURI(c, capabilitiesURI)
	if err != nil || len(res.Contents) != 1 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if text, ok := res.Contents[0].(mcp.TextResourceContents); !ok || !strings.HasSuffix(text.Text, want) {
		t.Errorf("capabilities: got %+v", res.Contents[0])
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("/data/%d", i))
	}
	if n := len(instructions + dataLine(many)); n > 2048 {
		t.Errorf("the instructions have %d characters, agents cut at 2048", n)
	}
	if line := dataLine(many); !strings.HasSuffix(line, "and 939 more.") {
		t.Errorf("got %q", line)
	}
}

func TestResultsNameFilesWithinBounds(t *testing.T) {
	var files []sandbox.File
	for i := range 50 {
		files = append(files, fileAt("S", fmt.Sprintf("f%d", i), "text/plain", 1))
	}
	r := sandbox.Result{Status: sandbox.StatusOK, Files: files}
	for _, v := range []view{{mode: Compact, budget: 1000, structured: true}, {mode: Compact, budget: 1000}} {
		res := v.result(r)
		named := 0
		for _, c := range res.Content {
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "bridged://") {
				named++
			}
		}
		if named != maxLinks {
			t.Errorf("%+v: %d files are named, want %d", v, named, maxLinks)
		}
		if last, ok := res.Content[len(res.Content)-1].(mcp.TextContent); !ok || !strings.Contains(last.Text, "18 more files") {
			t.Errorf("%+v: got %q", v, last.Text)
		}
	}
}

// A drawer keeps what it is given, or says why not.
type drawer map[string]string

func (d drawer) Keep(name string, write func(w io.Writer, most int64) error) (string, error) {
	var b strings.Builder
	if err := write(&b, 10); err != nil {
		return "", err
	}
	d[name] = b.String()
	return "/out/" + name, nil
}

// A press is a sandbox whose every run publishes the same files.
type press struct {
	interpreter
	b *bench
}

func (p press) Run(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
	return sandbox.Result{Status: sandbox.StatusOK, Files: p.b.files, Notices: []string{"other"}}, nil
}

func (p press) CopyFile(ctx context.Context, w io.Writer, uri string, most int64) (sandbox.File, error) {
	if ctx.Err() != nil {
		return sandbox.File{}, ctx.Err()
	}
	return p.b.CopyFile(ctx, w, uri, most)
}

func TestPublishedFilesAreKept(t *testing.T) {
	b := &bench{
		files:    []sandbox.File{fileAt("S", "a", "", 1), fileAt("S", "big", "", 11), fileAt("S", "b", "", 1)},
		contents: map[string]string{"a": "A", "b": "B"},
	}
	d := drawer{}
	w := &workspace{runner: press{interpreter{&shelf{}}, b}, Upstreams: &shelf{}, keeper: d}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a call that was given up: its files are the user's all the same
	res, err := w.Run(ctx, sandbox.Request{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(drawer{"a": "A", "b": "B"}, d); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	want := []string{"saved on the user's machine: /out/a, /out/b", "big was not saved: " + sandbox.ErrFileSize.Error(), "other"}
	if diff := cmp.Diff(want, res.Notices); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if _, err := w.CopyFile(context.Background(), io.Discard, "x", 1); !errors.Is(err, sandbox.ErrNoFile) {
		t.Errorf("got %v", err)
	}
}
