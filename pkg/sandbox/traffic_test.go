package sandbox

import (
	"strings"
	"testing"
	"testing/synctest"
)

func TestTrafficOfSandboxesIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fakeEngine(t, func(h *fakeHarness) int {
			h.start()
			h.line("this is no frame")
			return interpreter(h)
		})
		o := fakeOptions()
		o.Traffic = &Traffic{}
		s, err := Launch(t.Context(), e, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		before := o.Traffic.Sent()
		code := "1#" + strings.Repeat("x", 1000)
		s.Run(t.Context(), request(code), nil)
		synctest.Wait()
		if sent := o.Traffic.Sent() - before; sent < int64(len(code)) || sent > int64(len(code))+500 {
			t.Errorf("%d bytes were sent with code of %d", sent, len(code))
		}
		if o.Traffic.Received() < int64(len("this is no frame")) || o.Traffic.Refused() != 1 {
			t.Errorf("%d bytes came and %d lines were refused, want some and 1", o.Traffic.Received(), o.Traffic.Refused())
		}
	})
}
