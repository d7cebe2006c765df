package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/register"
)

// takeOver plans to move an agent's servers, and has each read before and after
// as the daemon would. What would not be the same server stays.
func takeOver(r *register.Registrar, client string) (*register.Change, error) {
	c, err := r.TakeOver(client)
	if err != nil {
		return nil, err
	}
	odd := movedOddly(r.Where, c)
	if len(odd) == 0 {
		return c, nil
	}
	careful := *r
	careful.Leave = odd
	if c, err = careful.TakeOver(client); err != nil {
		return nil, err
	}
	for name, why := range movedOddly(r.Where, c) { // cannot happen, and must not
		return nil, fmt.Errorf("%s: moving server %s would change it, so nothing is changed: %s", client, name, why)
	}
	return c, nil
}

// movedOddly says which servers would not be after a change what they were
// before, and why.
func movedOddly(w register.Where, c *register.Change) map[string]string {
	before, after := map[string][]byte{}, map[string][]byte{}
	for _, f := range c.Files() {
		before[f.Path], after[f.Path] = f.Before, f.After
	}
	was, is := readAs(w, c.Client, before), readAs(w, "seed", after)
	odd := map[string]string{}
	for _, name := range c.Moves() {
		if why := differ(w, was[name], is[name]); why != "" {
			odd[name] = why
		}
	}
	return odd
}

// readAs reads the person's servers of one agent, by name, with some files as
// they are given.
func readAs(w register.Where, agent string, files map[string][]byte) map[string]discovery.Server {
	res := discovery.Load(discovery.Options{
		Home: w.Home, Getenv: lookUpIn(w.Getenv), GOOS: w.GOOS, Sources: []string{agent}, Instead: files,
	})
	byName := map[string]discovery.Server{}
	for _, s := range res.Servers {
		byName[s.Name] = s
	}
	return byName
}

func lookUpIn(getenv func(string) string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v := getenv(name)
		return v, v != ""
	}
}

// differ says in what two definitions of a server differ: in this environment,
// or in one where every variable has a value of its own.
func differ(w register.Where, was, is discovery.Server) string {
	switch {
	case was.Name == "":
		return "bridged cannot read its definition; `bridged servers --sources` tells why"
	case is.Name == "":
		return "it could not be read in ~/MCPs"
	}
	for _, getenv := range []func(string) (string, bool){
		os.LookupEnv, func(name string) (string, bool) { return "<" + name + ">", true },
	} {
		a, errA := was.Expand(getenv, w.Home, filepath.Join(w.Home, "anywhere"))
		b, errB := is.Expand(getenv, w.Home, filepath.Join(w.Home, "anywhere"))
		if fmt.Sprint(errA) != fmt.Sprint(errB) {
			return "its variables would not mean the same"
		}
		if fields := differing(a, b); len(fields) > 0 {
			return "it would have another " + strings.Join(fields, ", ")
		}
	}
	return ""
}

// differing names the fields of a definition that matter and are not equal.
func differing(a, b discovery.Server) []string {
	var fields []string
	for _, f := range []struct {
		name    string
		was, is any
	}{
		{"transport", a.Transport, b.Transport}, {"command", a.Command, b.Command}, {"args", a.Args, b.Args}, {"env", a.Env, b.Env},
		{"removed variables", a.Unset, b.Unset}, {"env file", a.EnvFile, b.EnvFile}, {"cwd", a.Dir(""), b.Dir("")}, {"url", a.URL, b.URL},
		{"headers", a.Headers, b.Headers}, {"tools", a.Tools, b.Tools}, {"approved tools", a.Approved, b.Approved},
		{"time limits", []any{a.StartTimeout, a.CallTimeout}, []any{b.StartTimeout, b.CallTimeout}}, {"login", a.OAuth, b.OAuth},
	} {
		if !reflect.DeepEqual(f.was, f.is) && !(emptyList(f.was) && emptyList(f.is)) {
			fields = append(fields, f.name)
		}
	}
	slices.Sort(fields)
	return fields
}

// emptyList reports whether a value is a list or a map without anything in it.
func emptyList(v any) bool {
	r := reflect.ValueOf(v)
	return (r.Kind() == reflect.Slice || r.Kind() == reflect.Map) && r.Len() == 0
}
