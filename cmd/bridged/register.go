package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/register"
)

// registerFlags are what `register` and `unregister` take.
type registerFlags struct {
	client  string
	project bool
	yes     bool
	dryRun  bool
	take    bool
}

func registerCommand() *cobra.Command {
	return registering("register", "Put bridge-shim into the configuration of your agents",
		"Adds bridge-shim to an agent's own configuration file, in the agent's own way. Comments, order and\n"+
			"formatting stay. The change is shown first; a backup is kept, so that `bridged unregister` can go back.",
		func(f *registerFlags, r *register.Registrar, client string) (*register.Change, error) {
			if f.take {
				return takeOver(r, client)
			}
			return r.Register(client)
		},
		func(cmd *cobra.Command, f *registerFlags) {
			cmd.Flags().BoolVar(&f.take, "take-over", false, "also move the agent's other servers to ~/MCPs, so that it loads their tools no more")
		})
}

func unregisterCommand() *cobra.Command {
	return registering("unregister", "Take bridge-shim out of the configuration of your agents",
		"Restores an agent's configuration file byte for byte, if nobody has changed it since `bridged register`.\n"+
			"Otherwise only the entry of bridge-shim is taken out.",
		func(_ *registerFlags, r *register.Registrar, client string) (*register.Change, error) {
			return r.Unregister(client)
		},
		func(*cobra.Command, *registerFlags) {})
}

// A planner plans the change to one agent's file.
type planner func(f *registerFlags, r *register.Registrar, client string) (*register.Change, error)

// registering is a command that makes changes to agents' files by plan.
func registering(use, short, long string, plan planner, addFlags func(*cobra.Command, *registerFlags)) *cobra.Command {
	var f registerFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\nAgents: " + strings.Join(register.Clients(), ", ") + ".",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.registrar()
			if err != nil {
				return err
			}
			a := newAsker(f, cmd.InOrStdin(), cmd.OutOrStdout())
			return a.changeAll(r, func(client string) (*register.Change, error) { return plan(&f, r, client) })
		},
	}
	cmd.Flags().StringVar(&f.client, "client", "all", "the agent; all means those that are found here")
	cmd.Flags().BoolVar(&f.project, "project", false, "the agent's file in the current folder, not your own")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "ask nothing and show no diff, for scripts")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only show what would be changed")
	addFlags(cmd, &f)
	return cmd
}

// registrar finds whose files are meant.
func (f registerFlags) registrar() (*register.Registrar, error) {
	if f.take && f.project {
		return nil, errors.New("--take-over does not go with --project: a project's servers are for everybody who works on it, and would be yours alone in ~/MCPs")
	}
	p, err := findPaths(os.Getenv)
	if err != nil {
		return nil, err
	}
	shim, err := findShim()
	if err != nil {
		return nil, err
	}
	if shim, err = filepath.Abs(shim); err != nil {
		return nil, fmt.Errorf("finding bridge-shim: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return nil, errors.New("finding your home folder: set HOME to its absolute path")
	}
	r := &register.Registrar{Shim: shim, Dir: filepath.Join(p.state, "register"),
		Where: register.Where{GOOS: goruntime.GOOS, Home: home, Getenv: os.Getenv}}
	if !f.project {
		return r, nil
	}
	if r.Project, err = os.Getwd(); err != nil {
		return nil, fmt.Errorf("finding the current folder: %w", err)
	}
	return r, nil
}

// An asker shows changes to a person and makes those that are wanted.
type asker struct {
	registerFlags

	in       *bufio.Reader
	out      io.Writer
	terminal bool
}

func newAsker(f registerFlags, in io.Reader, out io.Writer) *asker {
	file, ok := in.(*os.File)
	return &asker{registerFlags: f, in: bufio.NewReader(in), out: out, terminal: ok && isTerminal(file)}
}

// changeAll goes through the agents that are meant. One that cannot be changed
// does not keep the others from it.
func (a *asker) changeAll(r *register.Registrar, plan func(client string) (*register.Change, error)) error {
	names := []string{a.client}
	if a.client == "all" {
		if names = r.Present(); len(names) == 0 {
			return errors.New("no agent's file was found; name one with --client to make its file: " + strings.Join(register.Clients(), ", "))
		}
	}
	var errs []error
	for _, name := range names {
		c, err := plan(name)
		switch {
		case a.client == "all" && errors.Is(err, register.ErrNotRegistered):
			continue
		case err != nil:
			errs = append(errs, err)
			continue
		}
		if err := a.change(c); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *asker) change(c *register.Change) error {
	for _, note := range c.Notes() {
		fmt.Fprintf(a.out, "%s: %s\n", c.Client, note)
	}
	if c.What == "" {
		_, err := fmt.Fprintf(a.out, "%s: nothing to do in %s\n", c.Client, c.Path)
		return err
	}
	if !a.yes {
		fmt.Fprint(a.out, c.Diff())
	}
	if a.dryRun {
		_, err := fmt.Fprintf(a.out, "%s: would %s in %s\n", c.Client, c.What, c.Path)
		return err
	}
	ok, err := a.agreed(c)
	if err != nil || !ok {
		return err
	}
	if err := c.Apply(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s: %s: done in %s\n", c.Client, c.What, c.Path)
	return err
}

// agreed asks about a change.
func (a *asker) agreed(c *register.Change) (bool, error) {
	if a.yes {
		return true, nil
	}
	if !a.terminal {
		return false, fmt.Errorf("%s: there is no terminal to ask on, so nothing was changed; add --yes", c.Client)
	}
	fmt.Fprintf(a.out, "%s: %s in %s? [y/N] ", c.Client, c.What, c.Path)
	answer, err := a.in.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}
