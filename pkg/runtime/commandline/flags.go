package commandline

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/cli/opts"
	"github.com/spf13/pflag"
)

const (
	// refusedMark is the annotation of flags that can't be honoured, and
	// noteMark that of flags that change nothing. Each has the reason.
	refusedMark = "refused"
	noteMark    = "note"

	// shortOnly begins the names of flags that have a letter alone.
	shortOnly = "letter "

	// maxUnknown bounds the unknown flags that are named.
	maxUnknown = 16
)

// flags are those of one `run`.
type flags struct {
	set *pflag.FlagSet

	env, envFiles, volumes, tmpfs, securityOpt []string
	capAdd, capDrop, publish                   []string
	labels, hosts, dns                         opts.ListOpts
	mounts                                     []string
	network                                    opts.NetworkOpt
	memory, shm                                opts.MemBytes
	cpus                                       opts.NanoCPUs
	pids                                       int64
	stopTimeout                                int

	user, name, entrypoint, workdir, pull, platform, hostname, stopSignal string

	init, readOnly bool
}

// parseFlags parses what follows `run`. Flags that nobody knows become refused
// ones; whether they take a value can't be known, and what follows the first
// of them that does may be taken for the image.
func parseFlags(args []string) (*flags, error) {
	var unknown []*pflag.NotExistError
	for {
		f := newFlags()
		for _, u := range unknown {
			f.refuseUnknown(u)
		}
		err := f.set.Parse(args)
		missing := new(pflag.NotExistError)
		switch {
		case err == nil:
			return f, nil
		case errors.As(err, &missing) && len(missing.GetSpecifiedShortnames()) > 0 && len(missing.GetSpecifiedName()) > 1:
			return nil, refuse([]string{fmt.Sprintf("%q (no flag has such a letter)", "-"+missing.GetSpecifiedName())})
		case errors.As(err, &missing) && len(unknown) < maxUnknown:
			unknown = append(unknown, missing)
		case len(refusals(f.set)) > 0:
			return f, nil // they are the better thing to tell
		default:
			return nil, flagError(err)
		}
	}
}

// flagError leaves the library's words out where they could hold a value that
// is secret.
func flagError(err error) error {
	if _, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("its flags end in the middle: %w", err)
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("the value of %s is wrong: %w", spelled(invalid.GetFlag()), errors.Unwrap(err))
	}
	if _, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return errors.New("it has too many flags that nobody knows")
	}
	return errors.New("its flags can't be read: one begins with - and has no name")
}

func newFlags() *flags {
	f := &flags{
		set:    newSet("run"),
		labels: opts.NewListOpts(opts.ValidateLabel),
		hosts:  opts.NewListOpts(opts.ValidateExtraHost),
		dns:    opts.NewListOpts(opts.ValidateIPAddress),
	}
	f.honoured()
	f.limits()
	for _, names := range strings.Fields(idle) {
		mark(f.set, names, noteMark, "")
	}
	for names, reason := range noted {
		mark(f.set, names, noteMark, reason)
	}
	for _, names := range strings.Fields(refused) {
		mark(f.set, names, refusedMark, "")
	}
	for names, reason := range reasons {
		mark(f.set, names, refusedMark, reason)
	}
	return f
}

func newSet(name string) *pflag.FlagSet {
	set := pflag.NewFlagSet(name, pflag.ContinueOnError)
	set.SetInterspersed(false)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	set.SortFlags = false
	return set
}

func (f *flags) honoured() {
	s := f.set
	s.StringArrayVarP(&f.env, "env", "e", nil, "")
	s.StringArrayVar(&f.envFiles, "env-file", nil, "")
	s.StringArrayVarP(&f.volumes, "volume", "v", nil, "")
	s.StringArrayVar(&f.mounts, "mount", nil, "")
	s.StringArrayVar(&f.tmpfs, "tmpfs", nil, "")
	s.StringArrayVar(&f.capAdd, "cap-add", nil, "")
	s.StringArrayVar(&f.capDrop, "cap-drop", nil, "")
	s.StringArrayVar(&f.securityOpt, "security-opt", nil, "")
	s.StringArrayVarP(&f.publish, "publish", "p", nil, "")
	s.VarP(&f.labels, "label", "l", "")
	s.Var(&f.hosts, "add-host", "")
	s.Var(&f.dns, "dns", "")
	s.Var(&f.network, "network", "")
	s.Var(&f.network, "net", "")
	s.StringVarP(&f.user, "user", "u", "", "")
	s.StringVar(&f.name, "name", "", "")
	s.StringVar(&f.entrypoint, "entrypoint", "", "")
	s.StringVarP(&f.workdir, "workdir", "w", "", "")
	s.StringVar(&f.pull, "pull", "missing", "")
	s.StringVar(&f.platform, "platform", "", "")
	s.StringVarP(&f.hostname, "hostname", "h", "", "")
	s.StringVar(&f.stopSignal, "stop-signal", "", "")
	s.BoolVar(&f.init, "init", false, "")
	s.BoolVar(&f.readOnly, "read-only", false, "")
}

func (f *flags) limits() {
	s := f.set
	s.VarP(&f.memory, "memory", "m", "")
	s.Var(&f.shm, "shm-size", "")
	s.Var(&f.cpus, "cpus", "")
	s.Int64Var(&f.pids, "pids-limit", 0, "")
	s.IntVar(&f.stopTimeout, "stop-timeout", 0, "")
}

// mark defines a flag that has no field, with a mark on it. Names is the long
// name, a letter after a comma if it has one, and = at the end if it takes a
// value.
func mark(set *pflag.FlagSet, names, what, reason string) {
	names, valued := strings.CutSuffix(names, "=")
	name, letter, _ := strings.Cut(names, ",")
	if valued {
		set.StringArrayP(name, letter, nil, "")
	} else {
		set.BoolP(name, letter, false, "")
	}
	set.Lookup(name).Annotations = map[string][]string{what: {reason}}
}

// refuseUnknown defines a flag that nobody knows.
func (f *flags) refuseUnknown(e *pflag.NotExistError) {
	reason := "no such flag is known"
	name, letter := e.GetSpecifiedName(), ""
	if e.GetSpecifiedShortnames() != "" {
		name, letter = shortOnly+name, name
	}
	if strings.ContainsAny(name, " \t") && letter == "" || strings.TrimSpace(letter) == "" && letter != "" {
		reason = "write a flag and its value as two items of args"
	}
	if f.set.Lookup(name) != nil || letter != "" && f.set.ShorthandLookup(letter) != nil {
		return
	}
	f.set.StringArrayP(name, letter, nil, "")
	flag := f.set.Lookup(name)
	flag.NoOptDefVal = "true"
	flag.Annotations = map[string][]string{refusedMark: {reason}}
}

// notes are the flags that were given and change nothing, with the reason.
func (f *flags) notes() []string {
	var list []string
	f.set.Visit(func(flag *pflag.Flag) {
		if reason := flag.Annotations[noteMark]; len(reason) > 0 && reason[0] != "" {
			list = append(list, spelled(flag)+" is left out: "+reason[0])
		}
	})
	return list
}

// idle are flags that change nothing for a server.
const idle = `
	interactive,i rm attach,a= sig-proxy detach-keys= quiet,q disable-content-trust expose= no-healthcheck
	log-opt= replace tls-verify`

// noted change nothing either, and somebody may wonder.
var noted = map[string]string{
	"tty,t":        "a server speaks over pipes, a terminal would garble it",
	"log-driver=":  "what a server writes is kept by bridged alone",
	"memory-swap=": "memory and swap are limited together",
	"restart=":     "bridged starts a server again when it is needed",
}

// reasons are flags that can't be honoured, for a reason worth telling.
var reasons = map[string]string{
	"privileged":    "it would take all isolation away",
	"detach,d":      "the server must stay attached",
	"publish-all,P": "name the ports",
	"gpus=":         "no device of the host is given",
	"device=":       "no device of the host is given",
	"volumes-from=": "name the volumes",
	"help":          "it runs nothing",
}

// refused can't be honoured. Whether a flag takes a value matters here, so that
// what follows it is read right.
const refused = `
	annotation= arch= authfile= blkio-weight= blkio-weight-device= cert-dir= cgroup-conf= cgroup-parent= cgroupns=
	cgroups= chrootdirs= cidfile= conmon-pidfile= cpu-count= cpu-percent= cpu-period= cpu-quota= cpu-rt-period=
	cpu-rt-runtime= cpu-shares,c= cpuset-cpus= cpuset-mems= creds= decryption-key= device-cgroup-rule=
	device-read-bps= device-read-iops= device-write-bps= device-write-iops= dns-opt= dns-option= dns-search=
	domainname= env-host env-merge= gidmap= group-add= group-entry= health-cmd= health-interval= health-retries=
	health-start-interval= health-start-period= health-timeout= hooks-dir= hostuser= http-proxy image-volume=
	init-path= io-maxbandwidth= io-maxiops= ip= ip6= ipc= isolation= kernel-memory= label-file= link=
	link-local-ip= mac-address= memory-reservation= memory-swappiness= net-alias= network-alias= no-hosts
	no-hostname oom-kill-disable oom-score-adj= os= passwd passwd-entry= personality= pid= pidfile= pod=
	pod-id-file= preserve-fd= preserve-fds= rdt-class= read-only-tmpfs requires= retry= retry-delay= rmi rootfs
	runtime= sdnotify= seccomp-policy= secret= shm-size-systemd= storage-opt= subgidname= subuidname= sysctl=
	systemd= timeout= tz= uidmap= ulimit= umask= unsetenv= unsetenv-all use-api-socket userns= uts= variant=
	volume-driver=`
