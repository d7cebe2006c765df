package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/policy"
)

func pinsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pins",
		Short: "Show the tools whose definition has changed, and accept them",
		Long: "A tool's definition is what its server says that it does, which models read and follow. It is\n" +
			"accepted as it is when it is first seen. This shows what has changed since. See docs/policy.md.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
			}
			list, err := ops.Pins(cmd.Context(), p.ops)
			if err != nil {
				return noDaemon(err, p.ops)
			}
			return printChanges(cmd.OutOrStdout(), list)
		},
	}
	cmd.AddCommand(acceptPinsCommand())
	return cmd
}

func acceptPinsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "accept SERVER [TOOL]",
		Short: "Accept a server's tool as it is now, or all of them",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
			}
			tool := ""
			if len(args) > 1 {
				tool = args[1]
			}
			n, err := ops.AcceptPins(cmd.Context(), p.ops, args[0], tool)
			if err != nil {
				return noDaemon(err, p.ops)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d accepted\n", n)
			return err
		},
	}
}

func printChanges(w io.Writer, list []ops.Change) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no tool has changed")
		return err
	}
	for _, c := range list {
		fmt.Fprintf(w, "%s  %s  changed %s ago\n", c.Server, c.Tool, age(c.Since))
		for _, part := range c.Parts {
			fmt.Fprintf(w, "  %s\n    - %s\n    + %s\n", part.Name, part.Was, part.Is)
		}
		if len(c.Parts) == 0 {
			fmt.Fprintln(w, "  its definition was too large to keep")
		}
	}
	_, err := fmt.Fprintln(w, "bridged pins accept SERVER [TOOL] accepts what has changed")
	return err
}

// openPins returns the accepted definitions of tools; nil if they are not asked
// for. Where they only warn, a file that can't be read is told and left alone.
func (c *config) openPins(p paths, log zerolog.Logger) (*policy.Pins, error) {
	if c.Policy.Pin == "off" {
		return nil, nil
	}
	strict := c.Policy.Pin == "deny"
	pins, err := policy.OpenPins(filepath.Join(p.state, "pins-"+p.mark()+".json"), strict)
	if err != nil && !strict {
		log.Warn().Err(err).Msg("pin tools")
		return policy.NewPins(false), nil
	}
	return pins, err
}

// changes lists the tools that have changed, for ops.
func (d *daemon) changes() []ops.Change {
	list := []ops.Change{}
	if d.pins == nil {
		return list
	}
	for _, c := range d.pins.Changes() {
		change := ops.Change{Server: policy.Plain(c.Server, 200), Tool: policy.Plain(c.Tool, 200), Since: c.Since, Parts: []ops.ChangePart{}}
		for _, part := range c.Parts {
			change.Parts = append(change.Parts, ops.ChangePart{Name: part.Name, Was: part.Was, Is: part.Is})
		}
		list = append(list, change)
	}
	return list
}

// accept accepts them.
func (d *daemon) accept(server, tool string) (int, error) {
	if d.pins == nil {
		return 0, ops.None("tools are not pinned: policy.pin is off")
	}
	n, err := d.pins.Accept(server, tool)
	if err == nil && n == 0 {
		return 0, ops.None("there is no such tool that has changed; bridged pins lists them")
	}
	return n, err
}
