package discovery

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// adaptDocker makes the run of a container, or a remote server, of an entry of
// a Docker catalogue. The gateway's secrets are variables here, since it alone
// can read its store.
func adaptDocker(e *entry) {
	kind, _ := e.n.get("type")
	e.n.remove("type", "tools", "name")
	if remote, _, ok := e.n.first("remote"); ok && kind.text != "server" {
		e.dockerRemote(remote)
		return
	}
	image, _ := e.n.get("image")
	if kind.text == "poci" {
		e.unusable = errors.New("it is of type poci: each of its tools is a container of its own, without a server, which only Docker's gateway runs")
		return
	}
	if image.kind != kindString || image.text == "" {
		e.unusable = errors.New("it has no image of a server and no url, so there is nothing to launch")
		return
	}
	if strings.HasPrefix(image.text, "-") {
		e.unusable = errors.New("the image is an option of docker")
		return
	}
	e.dockerRun(image)
}

func (e *entry) dockerRemote(remote node) {
	for from, to := range map[string]string{"url": "url", "transport_type": "type", "headers": "headers"} {
		if n, ok := remote.get(from); ok {
			e.n.replace(to, n)
		}
	}
	e.n.remove("command", "image", "env")
}

// dockerRun replaces the entry's command by the run of its container.
func (e *entry) dockerRun(image node) {
	env := node{kind: kindObject, line: image.line}
	for _, item := range e.dockerItems("env") {
		name, _ := item.get("name")
		value, _ := item.get("value")
		if text, ok := value.scalar(); ok && variableName.MatchString(name.text) {
			env.replace(name.text, textNode(item.line, text))
		}
	}
	e.s.envFrom = e.dockerSecrets()
	args := []string{"run", "--rm", "-i", "--init"}
	for _, f := range slices.SortedFunc(slices.Values(env.fields), func(a, b field) int { return strings.Compare(a.key, b.key) }) {
		args = append(args, "-e", f.key)
	}
	for _, name := range slices.Sorted(maps.Keys(e.s.envFrom)) {
		args = append(args, "-e", name)
	}
	for _, volume := range e.dockerItems("volumes") {
		if volume.kind == kindString && volume.text != "" {
			args = append(args, "-v", volume.text)
		}
	}
	args = append(args, image.text)
	for _, word := range e.dockerItems("command") {
		if text, ok := word.scalar(); ok {
			args = append(args, text)
		}
	}
	e.n.remove("url", "remote", "headers")
	e.n.replace("command", textNode(image.line, "docker"))
	e.n.replace("args", listNode(image.line, args))
	e.n.replace("env", env)
}

// dockerSecrets returns the variables that hold secrets in the container.
func (e *entry) dockerSecrets() map[string]string {
	var from map[string]string
	for _, item := range e.dockerItems("secrets") {
		if name, _ := item.get("env"); variableName.MatchString(name.text) {
			from = with(from, name.text, name.text)
		}
	}
	return from
}

func (e *entry) dockerItems(key string) []node {
	n, _ := e.n.get(key)
	return n.items[:min(len(n.items), maxItems)]
}

// dockerFile opens one of the files in which Docker keeps what is on.
func (l *loader) dockerFile(name string) *document {
	if l.opts.Home == "" {
		return nil
	}
	return l.open(filepath.Join(l.opts.Home, ".docker", "mcp", name), 0)
}

// dockerSwitch says why a server of a catalogue is off: one counts when the
// registry has it. The filter of a server that is on comes from tools.yaml.
func (l *loader) dockerSwitch(s *Server) string {
	registry := l.dockerFile("registry.yaml")
	if registry == nil {
		return "not in registry.yaml"
	}
	// An entry may be empty, so its value does not matter.
	at, _, err := registry.find("registry")
	if err != nil {
		return "not in registry.yaml"
	}
	list, err := registry.members(at, []string{"registry"})
	if err != nil || !slices.ContainsFunc(list, func(m member) bool { return m.key == s.Name }) {
		return "not in registry.yaml"
	}
	if tools := l.dockerFile("tools.yaml"); tools != nil {
		if n, ok := tools.value(s.Name); ok && n.kind == kindArray {
			s.Tools.Allow = append([]string{}, tools.strings(s.Name)...)
		}
	}
	return ""
}

// dockerValues returns the values of config.yaml by server.key.
func (l *loader) dockerValues() map[string]string {
	doc := l.dockerFile("config.yaml")
	if doc == nil {
		return nil
	}
	root, err := doc.decode(doc.whole(), maxFile)
	if err != nil {
		return nil
	}
	values := map[string]string{}
	flattenValues(values, "", root)
	return values
}

func flattenValues(values map[string]string, prefix string, n node) {
	if text, ok := n.scalar(); ok {
		values[prefix] = text
		return
	}
	if prefix != "" {
		prefix += "."
	}
	for _, f := range n.fields {
		flattenValues(values, prefix+f.key, f.val)
	}
}
