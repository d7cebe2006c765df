package ops

import "time"

// Sandbox is one sandbox and what the kernel really enforces in it.
type Sandbox struct {
	ID        string    `json:"id"`
	Container string    `json:"container"` // the engine's name for it
	State     string    `json:"state"`     // warm, leased, or paused, which is leased and idle
	Since     time.Time `json:"since"`
	Python    string    `json:"python,omitempty"`
	Posture   Posture   `json:"posture"`
	Degraded  []string  `json:"degraded,omitempty"` // what holds less than was asked for
	Usage     *Usage    `json:"usage"`              // null when the engine has not told
}

// Usage is one sample of what a sandbox uses.
type Usage struct {
	At          time.Time `json:"at"`
	MemoryBytes int64     `json:"memory_bytes"`
	CPUSeconds  float64   `json:"cpu_seconds"` // since it was made
	PIDs        int64     `json:"pids"`
}

// Posture is what the kernel said in a sandbox before it ran any code. Limits
// are null where there is none, or where the sandbox limits itself by rlimits.
type Posture struct {
	UID            string   `json:"uid"`
	GID            string   `json:"gid"`
	Capabilities   string   `json:"capabilities"` // that it has or could get: a mask in hexadecimal, or none
	NoNewPrivs     bool     `json:"no_new_privs"`
	Seccomp        string   `json:"seccomp"`         // filter, strict or off
	SeccompFilters int      `json:"seccomp_filters"` // 0 where the kernel does not count them
	OwnFilter      bool     `json:"own_filter"`      // the sandbox's own is one of them
	ProcessHidden  bool     `json:"process_1_hidden"`
	Interfaces     []string `json:"interfaces"`
	MemoryBytes    *int64   `json:"memory_bytes"`
	SwapBytes      *int64   `json:"swap_bytes"` // besides memory
	PIDs           *int64   `json:"pids"`
	OpenFiles      int64    `json:"open_files"`
	CoreBytes      int64    `json:"core_bytes"`
	Mounts         []Mount  `json:"mounts"`
	MountsLeftOut  int      `json:"mounts_left_out,omitempty"`
}

// Mount is one mount in a sandbox.
type Mount struct {
	Target  string   `json:"target"`
	Type    string   `json:"type"`
	Options []string `json:"options"`
	Bytes   int64    `json:"bytes,omitempty"` // of its file system, where the sandbox may write to it
}
