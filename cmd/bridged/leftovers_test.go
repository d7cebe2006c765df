package main

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

func managedSpec() runtime.Spec {
	spec := runtime.DefaultSpec("python")
	spec.Labels = map[string]string{runtime.LabelManaged: "true"}
	return spec
}

// Another engine does not have the container, which says nothing of it.
func TestLeftoversOfAnotherEngineAreKept(t *testing.T) {
	first, second := enginetest.NewMemory(t, enginetest.Options{}), enginetest.NewMemory(t, enginetest.Options{})
	first.AddImage("python", nil)
	id, err := first.Create(t.Context(), managedSpec())
	if err != nil {
		t.Fatal(err)
	}
	l := &leftovers{log: zerolog.Nop()}
	l.add(id)
	for _, e := range []*enginetest.Memory{second, second, first} {
		l.remove(t.Context(), func(context.Context) (runtime.Engine, error) { return e, nil })
	}
	if n := first.Counts().Present; n != 0 || !l.empty() {
		t.Errorf("%d containers are left, want none", n)
	}
}

func TestLeftoversGoOnceTheEngineIsBack(t *testing.T) {
	e := enginetest.NewMemory(t, enginetest.Options{})
	e.AddImage("python", nil)
	id, err := e.Create(t.Context(), managedSpec())
	if err != nil {
		t.Fatal(err)
	}
	l := &leftovers{log: zerolog.Nop()}
	l.add(id)
	get := func(context.Context) (runtime.Engine, error) { return e, nil }
	e.SetUnreachable(true)
	l.remove(t.Context(), get)
	if got := l.in(e); len(got) != 1 {
		t.Errorf("while the engine is gone: %d containers are known, want 1", len(got))
	}
	e.SetUnreachable(false)
	l.remove(t.Context(), get)
	if !l.empty() {
		t.Error("once it is back: a container is known")
	}
	list, err := e.List(t.Context(), nil)
	if err != nil || len(list) != 0 {
		t.Errorf("the engine has %d containers, %v; want none", len(list), err)
	}
}
