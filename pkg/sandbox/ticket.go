package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultGrace is how long a harness waits for another daemon when its own is
// gone.
const DefaultGrace = 5 * time.Minute

// beatsPerGrace is how many heartbeats of the daemon may get lost or be late
// before the harness takes it for gone.
const beatsPerGrace = 5

// A Ticket is all that another process needs to adopt a sandbox. It holds a
// secret: who has it, and reaches the engine, runs code in the sandbox. A
// sandbox has the same one from its launch to its end.
type Ticket struct {
	ID        string    `json:"id"`
	Container string    `json:"container"` // the engine's name for it
	Secret    string    `json:"secret"`
	Door      string    `json:"door"`   // the name of the harness's socket
	User      string    `json:"user"`   // that comes in there, "uid:gid"; "" is the container's own
	Handle    string    `json:"handle"` // in the addresses of the sandbox's files
	Python    string    `json:"python"`
	Posture   *Posture  `json:"posture"` // as attested at the launch
	Degraded  []string  `json:"degraded"`
	Created   time.Time `json:"created"`
	Memory    int64     `json:"memory"` // its limit, in bytes
	Grace     int64     `json:"grace"`  // how long the harness waits for a daemon, in seconds
}

// Ticket returns the sandbox's ticket. It adopts nothing if the sandbox was
// launched without [Options].Grace.
func (s *Sandbox) Ticket() Ticket {
	t := s.ticket
	t.ID, t.Container = s.ID, string(s.container)
	t.Python, t.Posture, t.Degraded, t.Created = s.Python, s.Posture, s.Degraded, s.Created
	t.Memory = s.spec.MemoryBytes
	return t
}

// newTicket makes what is random in a ticket, and says who comes in at the door.
func newTicket(o Options, handle string) Ticket {
	t := Ticket{Handle: handle}
	if o.Grace <= 0 {
		return t
	}
	t.Secret, t.Door, t.Grace = randomHex(32), randomHex(16), int64(max(o.Grace, time.Second).Seconds())
	if o.attest == nil { // what is not in a container has the one user only
		t.User = neighbour(o.Spec.WithDefaults().User)
	}
	return t
}

// neighbour is a user beside a sandbox's own, for the relay: code can't look
// into it, end it, or be it.
func neighbour(user string) string {
	uid, gid, _ := strings.Cut(user, ":")
	n, err := strconv.Atoi(uid)
	if err != nil {
		return ""
	}
	if n--; n < 1 {
		n += 2
	}
	return strconv.Itoa(n) + ":" + gid
}

// words are what the harness is told of the ticket when it is booted: the door's
// name, what the secret is compared with, and the user that may come in.
func (t Ticket) words() string {
	if t.Door == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(t.Secret))
	uid, _, _ := strings.Cut(t.User, ":")
	if uid == "" {
		uid = "-1"
	}
	return fmt.Sprintf(" %s %s %s", t.Door, hex.EncodeToString(sum[:]), uid)
}

// check refuses what no sandbox of ours has written.
func (t Ticket) check() error {
	switch {
	case t.ID == "" || t.Container == "" || t.Handle == "":
		return errors.New("the ticket is not complete")
	case t.Door == "" || t.Secret == "":
		return errors.New("the sandbox was launched to end with its daemon")
	}
	for _, word := range []string{t.Door, t.Secret} {
		if _, err := hex.DecodeString(word); err != nil || len(word) > 128 {
			return errors.New("the ticket is damaged")
		}
	}
	return nil
}

// beat is the time between two heartbeats; 0 if the harness needs none.
func (t Ticket) beat() time.Duration {
	return time.Duration(t.Grace) * time.Second / beatsPerGrace
}

// ErrGone means that a ticket's sandbox is not there any more.
var ErrGone = errors.New("sandbox is gone")
