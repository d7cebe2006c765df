package discovery

import (
	"errors"
	"slices"
	"strings"
)

// adaptOpenCode reads the switches of tools at the top of the file, which name
// them server_tool, and refuses arguments beside a command that has them.
func adaptOpenCode(e *entry) {
	tools, _ := e.n.get("tools")
	e.n.remove("tools")
	var off []string
	for _, f := range tools.fields {
		if on, known := f.val.truth(); !known || on {
			continue
		}
		if rest, ok := strings.CutPrefix(f.key, e.s.Name+"_"); ok {
			off = append(off, rest)
		} else if start, _, isPattern := strings.Cut(f.key, "*"); isPattern && strings.HasPrefix(e.s.Name+"_", start) {
			off = append(off, "*")
		}
	}
	if len(off) > 0 {
		e.n.replace("disabledTools", listNode(tools.line, off))
	}
	if n, _, ok := e.n.first("args"); ok {
		e.note("args", n.line, "the agent itself has no args; put them into the list of command")
	}
}

// adaptCodex reads the names of variables of the agent's environment, and the
// tools that need no question.
func adaptCodex(e *entry) {
	if e.has("bearer_token") {
		e.unusable = errors.New("bearer_token is refused by the agent; put the token into a variable and its name into bearer_token_env_var")
		return
	}
	e.s.envFrom = e.namesFrom("env_vars")
	e.s.headerFrom = e.textMap("env_http_headers")
	e.s.bearerFrom = e.text("bearer_token_env_var")
	tools, _ := e.n.get("tools")
	e.n.remove("tools")
	var approved []string
	for _, f := range tools.fields {
		if mode, _ := f.val.get("approval_mode"); mode.text == "approve" {
			approved = append(approved, f.key)
		}
	}
	if len(approved) > 0 {
		e.n.replace("autoApprove", listNode(tools.line, approved))
	}
}

// namesFrom reads a list of variables to take from the agent's environment:
// names, or objects with a name and optionally a source.
func (e *entry) namesFrom(key string) map[string]string {
	n, _, ok := e.n.first(key)
	if !ok {
		return nil
	}
	var from map[string]string
	for i, item := range n.items {
		name := item
		if item.kind == kindObject {
			name, _ = item.get("name")
		}
		if name.kind != kindString || !variableName.MatchString(name.text) || i >= maxItems {
			e.note(key, item.line, "it is not the name of a variable, so it is left out")
			continue
		}
		from = with(from, name.text, name.text)
	}
	return from
}

// textMap reads an object of headers with the names of variables.
func (e *entry) textMap(key string) map[string]string {
	n, _, ok := e.n.first(key)
	if !ok {
		return nil
	}
	var out map[string]string
	for i, f := range n.fields {
		if f.val.kind != kindString || !isHeaderName(f.key) || !variableName.MatchString(f.val.text) || i >= maxItems {
			e.note(key+"."+f.key, f.line, "it is not a header with the name of a variable, so it is left out")
			continue
		}
		out = with(out, f.key, f.val.text)
	}
	return out
}

// adaptContinue reads the headers of a block's requests and its key.
func adaptContinue(e *entry) {
	options, _ := e.n.get("requestOptions")
	headers, _ := options.get("headers")
	if key, _, ok := e.n.first("apiKey"); ok && key.kind == kindString {
		if _, has := headers.get("Authorization"); !has {
			headers.kind, headers.line = kindObject, key.line
			headers.replace("Authorization", textNode(key.line, "Bearer "+key.text))
		}
	}
	if headers.kind == kindObject && !e.has("headers") {
		e.n.replace("headers", headers)
	}
}

// gooseOwn are the types of extensions that run inside of Goose.
var gooseOwn = []string{"builtin", "platform", "frontend", "inline_python"}

// adaptGoose reads the names of variables that an extension gets, and leaves
// out what runs inside of Goose.
func adaptGoose(e *entry) {
	kind, _ := e.n.get("type")
	if slices.Contains(gooseOwn, kind.text) {
		e.unusable = errors.New("the agent runs it inside itself (" + kind.text + "), so there is nothing to launch")
		return
	}
	if kind.text == "sse" {
		e.note("type", kind.line, "the agent itself no longer reaches servers by SSE; set it to streamable_http if the server can do that")
	}
	e.s.envFrom = e.namesFrom("env_keys")
	for _, f := range e.fieldsOf("envs", "env") {
		delete(e.s.envFrom, f.key) // a value in the file is stronger
	}
}

func (e *entry) fieldsOf(keys ...string) []field {
	n, _, _ := e.n.first(keys...)
	return n.fields
}

// adaptLibreChat reads an entry's key for the server.
func adaptLibreChat(e *entry) {
	key, _ := e.n.get("apiKey")
	if text, _ := key.get("key"); text.kind == kindString {
		headers, _ := e.n.get("headers")
		headers.kind = kindObject
		name, value := "Authorization", "Bearer "+text.text
		switch kind, _ := key.get("authorization_type"); kind.text {
		case "basic":
			value = "Basic " + text.text
		case "custom":
			custom, _ := key.get("custom_header")
			name, value = custom.text, text.text
		}
		if _, has := headers.get(name); !has {
			headers.replace(name, textNode(text.line, value))
			e.n.replace("headers", headers)
		}
	}
}
