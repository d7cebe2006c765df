package discovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// replace sets a field, in place of one of that name.
func (n *node) replace(key string, val node) {
	n.remove(key)
	n.fields = append(n.fields, field{key, val.line, val})
}

// remove takes fields away. It leaves what other nodes share as it is.
func (n *node) remove(keys ...string) {
	n.fields = slices.DeleteFunc(slices.Clone(n.fields), func(f field) bool { return slices.Contains(keys, f.key) })
}

// textNode returns a string.
func textNode(line int, text string) node { return node{kind: kindString, line: line, text: text} }

// listNode returns a list of strings.
func listNode(line int, words []string) node {
	n := node{kind: kindArray, line: line}
	for _, w := range words {
		n.items = append(n.items, textNode(line, w))
	}
	return n
}

// flatten brings the fields of a transport that is an object up to the entry.
func (e *entry) flatten() {
	inner, ok := e.n.get("transport")
	if !ok || inner.kind != kindObject {
		return
	}
	e.n.remove("transport")
	for _, f := range inner.fields {
		e.n.replace(f.key, f.val)
	}
}

// adaptZed leaves out the servers that an extension of Zed runs.
func adaptZed(e *entry) {
	if _, ok := e.n.get("settings"); ok && !e.has("command") && !e.has("url") {
		e.unusable = errors.New("an extension of the editor runs it, so there is nothing to launch")
	}
}

func (e *entry) has(key string) bool {
	_, _, ok := e.n.first(key)
	return ok
}

// adaptGemini lets httpUrl win, takes trust as the approval of all tools, and
// refuses what is neither a command nor HTTP.
func adaptGemini(e *entry) {
	if e.has("httpUrl") {
		e.n.remove("url", "type")
	}
	if trust, _ := e.n.get("trust"); trust.kind == kindTrue {
		e.n.replace("autoApprove", listNode(trust.line, []string{"*"}))
	}
	if e.has("tcp") && !e.has("command") && !e.has("url") && !e.has("httpUrl") {
		e.unusable = errors.New("it is reached by tcp, which is no transport of MCP")
	}
}

// adaptAmazon reads the tools of an agent file, which name them @server/tool.
func adaptAmazon(e *entry) {
	tools, hasTools := e.n.get("tools")
	allowed, _ := e.n.get("allowedTools")
	e.n.remove("tools", "allowedTools")
	if hasTools && tools.kind == kindArray {
		if names, all := e.ownTools(tools); !all {
			e.n.replace("enabledTools", listNode(tools.line, names))
		}
	}
	if names, all := e.ownTools(allowed); all {
		e.n.replace("autoApprove", listNode(allowed.line, []string{"*"}))
	} else if len(names) > 0 {
		e.n.replace("autoApprove", listNode(allowed.line, names))
	}
}

// ownTools returns the tools of this server in a list for all servers, or that
// it has all of them.
func (e *entry) ownTools(list node) (names []string, all bool) {
	for _, item := range list.items {
		if item.text == "*" || item.text == "@"+e.s.Name {
			return nil, true
		}
		if tool, ok := strings.CutPrefix(item.text, "@"+e.s.Name+"/"); ok {
			if tool == "*" {
				return nil, true
			}
			names = append(names, tool)
		}
	}
	return names, false
}

// adaptRoo refuses what Roo Code refuses, except that a URL without a type is
// tried, and told.
func adaptRoo(e *entry) {
	switch n, _, remote := e.n.first("url"); {
	case remote && e.has("command"):
		e.unusable = errors.New("there are both a command and a url, which the agent refuses")
	case remote && !e.has("type"):
		e.note("url", n.line, "the agent itself refuses a url without a type; set it to streamable-http or sse")
	}
}

// adaptWitsy reads the arguments of a program, which are one text in url.
func adaptWitsy(e *entry) {
	n, _, ok := e.n.first("url")
	if !ok || n.kind != kindString || !e.has("command") || strings.Contains(n.text, "://") {
		return
	}
	e.n.remove("url")
	if _, has := e.n.get("args"); !has {
		e.n.replace("args", listNode(n.line, strings.Fields(n.text)))
	}
}

// unsuitable tells of a program that only another system has.
func (l *loader) unsuitable(s Server) string {
	if l.opts.GOOS == "windows" || s.Transport != Stdio || baseOf(s.Command) != "cmd" {
		return ""
	}
	if len(s.Args) > 0 && strings.EqualFold(s.Args[0], "/c") {
		return fmt.Sprintf("it is started by cmd, which only Windows has; put %s into command", strings.Join(s.Args[1:min(2, len(s.Args))], ""))
	}
	return ""
}
