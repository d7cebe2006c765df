package commandline

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/spf13/pflag"

	"github.com/bridged/bridged/pkg/runtime"
)

// An Origin is what a tool would look up beside its command line.
type Origin struct {
	Dir    string                                    // absolute; relative paths are taken from it
	Lookup func(name string) (value string, ok bool) // the variables that are passed on by name
}

// A Run is a container that a command line asks for.
type Run struct {
	Spec runtime.ServerSpec

	Remote string // the image by the name under which a registry has it
	Pull   string // "missing", "always" or "never"

	StopSignal string        // such as SIGINT; empty means SIGTERM
	StopGrace  time.Duration // between that and the end; 0 means the caller's own

	// Notes are flags that change nothing, each with the reason.
	Notes []string
}

// tools are the programs whose command lines are read, by their base name.
var tools = []string{"docker", "podman", "nerdctl"}

// IsRun reports whether argv runs a container with a tool that Parse knows,
// called directly: a shell's line is not looked into.
func IsRun(argv []string) bool {
	if tool(argv) == "" {
		return false
	}
	rest, err := afterGlobals(newGlobals(), argv[1:])
	if err != nil {
		return slices.Contains(argv, "run") // Parse says what is wrong with it
	}
	_, ok := afterRun(rest)
	return ok
}

// tool returns the name of the tool that argv starts; empty if it starts none.
func tool(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	name := strings.ToLower(path.Base(strings.ReplaceAll(argv[0], `\`, "/")))
	name = strings.TrimSuffix(name, ".exe")
	if !slices.Contains(tools, name) {
		return ""
	}
	return name
}

// afterRun returns what follows `run` or `container run`.
func afterRun(args []string) ([]string, bool) {
	if len(args) > 1 && args[0] == "container" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] != "run" {
		return nil, false
	}
	return args[1:], true
}

// Parse reads a command line for which IsRun holds. Its errors are tails of a
// sentence and hold no value of a variable.
func Parse(argv []string, o Origin) (Run, error) {
	if slices.ContainsFunc(argv, func(s string) bool { return strings.Contains(s, "\x00") }) {
		return Run{}, errors.New("it contains a NUL character")
	}
	globals := newGlobals()
	rest, err := afterGlobals(globals, argv[1:])
	if err != nil {
		return Run{}, err
	}
	args, ok := afterRun(rest)
	if !ok {
		return Run{}, errors.New("it is no run of a container")
	}
	f, err := parseFlags(args)
	if err != nil {
		return Run{}, err
	}
	if refused := append(refusals(globals), refusals(f.set)...); len(refused) > 0 {
		return Run{}, refuse(refused)
	}
	if f.set.NArg() == 0 {
		return Run{}, errors.New("it names no image: args must hold the image after the flags")
	}
	return f.run(tool(argv), o)
}

// run makes a Run of flags that were parsed.
func (f *flags) run(tool string, o Origin) (Run, error) {
	image := f.set.Arg(0)
	remote, err := remoteName(tool, image)
	if err != nil {
		return Run{}, err
	}
	r := Run{Remote: remote, Pull: f.pull, StopSignal: f.stopSignal, Notes: f.notes()}
	r.Spec, err = f.spec(o)
	if err != nil {
		return Run{}, err
	}
	r.Spec.Image = image
	if r.StopGrace, err = f.stopGrace(); err != nil {
		return Run{}, err
	}
	if !slices.Contains([]string{"missing", "always", "never"}, r.Pull) {
		return Run{}, fmt.Errorf("--pull %q is none of missing, always and never", f.pull)
	}
	args := slices.Clone(f.set.Args()[1:])
	return r, f.command(&r.Spec, args)
}

// remoteName is the name under which a registry has an image. Docker takes a
// name without a registry for one of its own; Podman has the user's rules.
func remoteName(tool, image string) (string, error) {
	if image == "" || strings.HasPrefix(image, "-") || strings.ContainsAny(image, " \t\n") {
		return "", fmt.Errorf("%q is no name of an image", image)
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil || tool == "podman" {
		return image, nil // an image's id, or one of Podman's other forms
	}
	return reference.TagNameOnly(named).String(), nil
}

// refusals are the flags of a set that were given and can't be honoured, in
// words.
func refusals(set *pflag.FlagSet) []string {
	var list []string
	set.Visit(func(f *pflag.Flag) {
		reason, refused := f.Annotations[refusedMark]
		if !refused || f.Value.Type() == "bool" && f.Value.String() == "false" {
			return
		}
		text := spelled(f)
		if reason[0] != "" {
			text += " (" + reason[0] + ")"
		}
		list = append(list, text)
	})
	return list
}

// spelled is how a flag is written on a command line.
func spelled(f *pflag.Flag) string {
	if strings.HasPrefix(f.Name, shortOnly) {
		return "-" + f.Shorthand
	}
	if f.Shorthand != "" {
		return "-" + f.Shorthand + "/--" + f.Name
	}
	return "--" + f.Name
}

func refuse(list []string) error {
	return fmt.Errorf("bridged makes this container itself, over the engine's socket, and cannot honour %s; "+
		"take that out of args, or start the server yourself and give bridged its URL", strings.Join(list, ", "))
}
