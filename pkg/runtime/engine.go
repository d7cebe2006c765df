package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// An ID names a container. It is opaque and chosen by the engine.
type ID string

// An Engine is a container engine reached over its REST socket. All methods
// may be called from several goroutines at once. Every method returns an
// [*EngineError] when the engine refused, and an error that wraps
// [ErrUnreachable] when the engine could not be asked.
type Engine interface {
	// Info pings the engine and reports what it is.
	Info(ctx context.Context) (Info, error)

	// Image reports the image that ref names, or an error that wraps
	// [ErrNoImage] when the engine does not have it.
	Image(ctx context.Context, ref string) (Image, error)
	// Images lists the images that carry the label [LabelImage].
	Images(ctx context.Context) ([]Image, error)
	// Pull fetches ref from its registry, for platform, such as linux/amd64,
	// or for the engine's own where that is empty.
	Pull(ctx context.Context, ref, platform string, progress Progress) error
	// Build builds the Containerfile in contextTar, a tar stream that the
	// caller closes, and tags the image ref.
	Build(ctx context.Context, ref string, contextTar io.Reader, progress Progress) error
	// Import makes an image from a root file system, a plain tar stream
	// that the caller closes, and tags it ref. Changes are Containerfile
	// instructions, such as "LABEL a=b".
	Import(ctx context.Context, ref string, rootfsTar io.Reader, changes []string, progress Progress) error

	// Create makes a container from spec and does not start it. A missing
	// image is an error that wraps [ErrNoImage]; nothing is ever pulled.
	Create(ctx context.Context, spec Spec) (ID, error)
	// CreateServer is Create for the container of an MCP server.
	CreateServer(ctx context.Context, spec ServerSpec) (ID, error)
	// Attach connects to the container's stdin, stdout and stderr. It may be
	// called before Start, and no output is lost then; what was written while
	// nobody was attached is lost. What the container writes to stderr goes
	// to stderr, in Read or in a goroutine of the engine's; it must not block,
	// and nil discards it. Ctx bounds the attaching and not the Stream.
	Attach(ctx context.Context, id ID, stderr io.Writer) (Stream, error)
	// Start starts a created container.
	Start(ctx context.Context, id ID) error
	// Exec runs a command in a running container and attaches to it. It has
	// the container's environment and limits, and no capability either.
	Exec(ctx context.Context, id ID, cmd Command, stderr io.Writer) (Stream, error)
	// Kill sends signal, such as "SIGKILL", to the container's first process.
	Kill(ctx context.Context, id ID, signal string) error
	// Pause stops all of a running container's processes until Unpause. Its
	// streams stay open. Refused when the engine has no means to, as a
	// rootless one on cgroups v1. SIGKILL and Remove work on a paused
	// container too.
	Pause(ctx context.Context, id ID) error
	// Unpause lets a paused container go on. One that is not paused is
	// refused, which tells that it was not.
	Unpause(ctx context.Context, id ID) error
	// Wait waits until the container has ended and says how. A container
	// that is gone is an error that wraps [ErrNoContainer].
	Wait(ctx context.Context, id ID) (Exit, error)
	// Stats samples the container's use of memory, CPU and pids once.
	Stats(ctx context.Context, id ID) (Stats, error)
	// List returns the containers, running or not, that carry all labels.
	List(ctx context.Context, labels map[string]string) ([]Container, error)
	// Remove kills the container if need be and removes it with its
	// anonymous volumes. A container that is gone already is no error.
	Remove(ctx context.Context, id ID) error
	// Events sends what happens to containers that carry all labels, until
	// ctx ends or the engine closes the stream; then it closes the channel.
	Events(ctx context.Context, labels map[string]string) (<-chan Event, error)

	// Close drops idle connections. It touches no container.
	Close() error
}

// A Command is what Exec runs.
type Command struct {
	Argv []string
	User string // "uid:gid"; "" is the container's own
}

// A Stream is the stdin and stdout of a container or an exec session. One
// goroutine may read while another writes. Read returns io.EOF when the
// process closed its stdout or ended.
type Stream interface {
	io.ReadWriteCloser
	// CloseWrite ends what this Stream writes and leaves stdout open. An
	// exec session and a server's container read the end of their stdin then.
	// So does a sandbox where [Info].StdinOnce is true; elsewhere its stdin
	// stays open for the next Stream, and a program must be told to end in
	// another way.
	CloseWrite() error
}

// Progress reports one step of a long image operation: what is being done,
// how much of it is done, and how much there is. Total is 0 when unknown, and
// both are bytes where they are not 0. A nil Progress reports nothing.
type Progress func(step string, done, total int64)

// Info describes a reachable engine.
type Info struct {
	Name          string // "podman" or "docker"
	Version       string // as the engine prints it, such as "4.3.1"
	APIVersion    string // of the engine's REST API
	Rootless      bool   // runs as an ordinary user
	CgroupVersion string // "1" or "2", as the engine says
	Endpoint      string // the address that was dialled, such as unix:///run/podman/podman.sock

	// StdinOnce says that a sandbox's stdin ends for good when its first
	// attached Stream is closed or half-closed, as a server's does on every
	// engine. Where it is false a second Attach finds stdin open.
	StdinOnce bool

	MemoryBytes int64 // of the machine that runs the containers; 0 if unknown

	StorageDriver string // such as "overlay"
	StorageDir    string // where it keeps images and containers, on its own machine
	Seccomp       bool   // it can put a profile on containers
	Unlimited     string // limits that it says it can't set, of "memory", "swap", "pids" and "cpu", with spaces between
}

// An Image is an image that the engine holds.
type Image struct {
	ID      string // with its digest algorithm, such as sha256:...
	Refs    []string
	Size    int64 // bytes
	Created time.Time
	Labels  map[string]string
}

// A Container is one row of a listing.
type Container struct {
	ID      ID
	Name    string
	State   string // "created", "running", "paused", "exited", ...
	Labels  map[string]string
	Created time.Time
}

// Exit says how a container ended.
type Exit struct {
	Code int // of the first process; 128+n after signal n

	// OOM says that the kernel killed it for want of memory. An engine may
	// not notice, as Podman 4 with cgroups v1: code 137 without a Kill of
	// one's own means the same most of the time.
	OOM bool
}

// Stats is one sample of a container's use of resources.
type Stats struct {
	MemoryBytes int64
	CPU         time.Duration // used since the start
	Pids        int64
}

// An Event is something that happened to a container.
type Event struct {
	ID     ID
	Action string // "start", "die", "oom", "pause", "unpause", "remove", ...
	Time   time.Time
}

// Conditions that callers test.
var (
	// ErrUnreachable means that the engine did not answer at all.
	ErrUnreachable = errors.New("container engine is unreachable")
	// ErrNoImage means that the engine does not have the image.
	ErrNoImage = errors.New("no such image")
	// ErrNoContainer means that the container is gone.
	ErrNoContainer = errors.New("no such container")
)

// An EngineError is an engine's refusal.
type EngineError struct {
	Op     string // "create", "start", "attach", "remove", ...
	Status int    // HTTP status code, 0 if there was none
	Msg    string // the engine's own words
	Err    error  // [ErrNoImage], [ErrNoContainer] or nil
}

// Error reads as the tail of a sentence: "engine create: no such image (404)".
func (e *EngineError) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("engine %s: %s", e.Op, e.Msg)
	}
	return fmt.Sprintf("engine %s: %s (%d)", e.Op, e.Msg, e.Status)
}

// Unwrap returns the condition, for errors.Is.
func (e *EngineError) Unwrap() error { return e.Err }
