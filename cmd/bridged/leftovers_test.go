package main

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

func TestLeftoversGoOnceTheEngineIsBack(t *testing.T) {
	e := enginetest.NewMemory(t, enginetest.Options{})
	e.AddImage("python", nil)
	id, err := e.Create(t.Context(), runtime.DefaultSpec("python"))
	if err != nil {
		t.Fatal(err)
	}
	l := &leftovers{log: zerolog.Nop()}
	l.add(id)
	get := func(context.Context) (runtime.Engine, error) { return e, nil }
	e.SetUnreachable(true)
	l.remove(t.Context(), get)
	if got := l.list(); len(got) != 1 {
		t.Errorf("while the engine is gone: %d containers are known, want 1", len(got))
	}
	e.SetUnreachable(false)
	l.remove(t.Context(), get)
	if got := l.list(); len(got) != 0 {
		t.Errorf("once it is back: %d containers are known, want 0", len(got))
	}
	list, err := e.List(t.Context(), nil)
	if err != nil || len(list) != 0 {
		t.Errorf("the engine has %d containers, %v; want none", len(list), err)
	}
}
