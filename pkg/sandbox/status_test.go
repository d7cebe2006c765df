package sandbox

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStatusListsSandboxesTheOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{Warm: 1})
		time.Sleep(time.Second)
		first := lease(t, p)
		time.Sleep(time.Second)
		second := lease(t, p)
		expectStatus(t, p, 1, 2)
		var got [][2]string
		for _, s := range p.Status().Sandboxes {
			if s.Posture == nil || s.Container == "" || s.Created.IsZero() || s.Python != "3.13.5" {
				t.Errorf("got %+v, want all of it filled", s)
			}
			got = append(got, [2]string{s.ID, s.State})
		}
		if diff := cmp.Diff([][2]string{{first.ID, "leased"}, {second.ID, "leased"}}, got[:min(2, len(got))]); diff != "" || len(got) != 3 || got[2][1] != "warm" {
			t.Errorf("got %v, want both leased and then a warm one (-want +got):\n%s", got, diff)
		}
		p.Release(second)
		p.Release(first)
		expectStatus(t, p, 1, 0)
		if list := p.Status().Sandboxes; len(list) != 1 || list[0].State != "warm" {
			t.Errorf("after both were released: got %+v, want the warm one alone", list)
		}
	})
}
