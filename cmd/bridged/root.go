package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/proxy"
)

// rootCommand is the whole command line.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "bridged",
		Short:         "Let an AI agent reach many MCP servers through one tool",
		Long:          "bridged runs an agent's Python code in warm, hardened containers, from which it\nreaches the user's MCP servers. Agents start bridge-shim, which talks to `bridged serve`.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		serveCommand(), stopCommand(), statusCommand(), doctorCommand(), runCommand(), serversCommand(), catalogCommand(), memoryCommand(), toolsCommand(),
		loginCommand(), logoutCommand(), approvalsCommand(), pinsCommand(), auditCommand(),
		installCommand(), uninstallCommand(), registerCommand(), unregisterCommand(), imageCommand(), versionCommand(),
	)
	root.AddCommand(reapCommand())
	return root
}

// reapCommand is run by ourselves alone, see proxy.Options.
func reapCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "reap MARK",
		Short:  "End what the servers of a daemon have left that was killed",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		Run:    func(cmd *cobra.Command, args []string) { proxy.Reap(cmd.InOrStdin(), args[0]) },
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "bridged %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// loadFor is loadConfig for a command with the flags of addFlags.
func loadFor(cmd *cobra.Command) (*config, paths, error) {
	c, err := loadConfig(cmd.Flags(), os.Getenv)
	if err != nil {
		return nil, paths{}, err
	}
	p, err := findPaths(os.Getenv)
	if err != nil {
		return nil, paths{}, err
	}
	if self, err := os.Executable(); err == nil { // else servers get no reaper
		c.reaper = []string{self, reapCommand().Name()}
	}
	err = p.configured(c, os.Getenv)
	return c, p, err
}
