package bridge

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that is behind with reading is not read until it has caught up.
func TestAClientThatIsBehindIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		w := newWriter(ours, time.Hour, 1000)
		send := func(n int) { // ends when the client has read, or at the latest in close
			if err := w.send([]byte(strings.Repeat("x", n))); err != nil {
				t.Error(err)
			}
		}
		go send(400)
		synctest.Wait()
		w.catchUp() // that much is no reason to wait
		go send(400)
		synctest.Wait()
		caught := false
		go func() { // ends when the client has read
			w.catchUp()
			caught = true
		}()
		synctest.Wait()
		if caught {
			t.Error("it is read though it is behind")
		}
		if _, err := io.ReadFull(theirs, make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !caught {
			t.Error("it is not read though it has caught up")
		}
		go func() { _, _ = io.Copy(io.Discard, theirs) }() // ends with the pipe
		w.close(time.Minute)
		_ = ours.Close()
	})
}
