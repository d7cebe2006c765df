package commandline

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// newGlobals are the flags before the subcommand. What chooses an engine can't
// be honoured: bridged uses the one that it has found.
func newGlobals() *pflag.FlagSet {
	set := newSet("globals")
	for _, names := range strings.Fields(`debug,D log-level,l= config= tls tlscacert= tlscert= tlskey= tlsverify cgroup-manager= events-backend= noout syslog`) {
		mark(set, names, noteMark, "")
	}
	mark(set, "remote,r", noteMark, "")
	const engine = "bridged uses the engine that it has found, see engine.runtime in its configuration"
	for _, names := range strings.Fields(`context,c= host,H= connection= url= identity= ssh= namespace,n= address,a= root= runroot=
		runtime= storage-driver= storage-opt= imagestore= module= network-config-dir= tmpdir= volumepath= conmon= hooks-dir=
		registries-conf= cni-path= cni-netconfpath= data-root= snapshotter= hosts-dir= insecure-registry`) {
		mark(set, names, refusedMark, engine)
	}
	return set
}

// afterGlobals parses the flags before the subcommand and returns the rest.
func afterGlobals(set *pflag.FlagSet, args []string) ([]string, error) {
	if err := set.Parse(args); err != nil {
		missing := new(pflag.NotExistError)
		if errors.As(err, &missing) {
			name := "--" + missing.GetSpecifiedName()
			if missing.GetSpecifiedShortnames() != "" {
				name = "-" + missing.GetSpecifiedName()
			}
			return nil, refuse([]string{name + " before run (no such flag is known)"})
		}
		return nil, flagError(err)
	}
	return set.Args(), nil
}
