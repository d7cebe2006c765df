package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/memory"
	"github.com/bridged/bridged/pkg/policy"
)

func toolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Show, remove and bring back the functions that code has saved",
		Long: "Saved tools are what code has kept with save_tool(func): Python files that you may edit. This works\n" +
			"beside a daemon and without one, and runs none of them. See docs/tools.md.",
		Args: cobra.NoArgs,
	}
	cmd.PersistentFlags().String("config", "", "configuration file (env BRIDGED_CONFIG)")
	cmd.AddCommand(toolsListCommand(), toolsShowCommand(), toolsRemoveCommand(), toolsRestoreCommand())
	return cmd
}

// toolsFor opens the saved tools, also when no session is to have them.
func toolsFor(cmd *cobra.Command) (*memory.Tools, error) {
	c, p, err := loadFor(cmd)
	if err != nil {
		return nil, err
	}
	c.Tools.Enabled = true
	return savedTools(c, p, os.Getenv), nil
}

func toolsListCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List saved tools",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tools, err := toolsFor(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return printToolsJSON(cmd.OutOrStdout(), tools.List())
			}
			return printTools(cmd.OutOrStdout(), tools.List())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, a line each")
	return cmd
}

func printToolsJSON(w io.Writer, list []memory.SavedTool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, tool := range list {
		if err := e.Encode(tool); err != nil {
			return err
		}
	}
	return nil
}

func printTools(w io.Writer, list []memory.SavedTool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no saved tools")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVERSION\tSAVED\tFILE\tWHAT IT DOES")
	for _, tool := range list {
		version, note := "-", policy.Plain(tool.Description, 100)
		if tool.Version > 0 {
			version = fmt.Sprint(tool.Version)
		}
		if tool.Edited {
			version += " (edited)"
		}
		if tool.Problem != "" {
			note = policy.Plain(tool.Problem, 400)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", tool.Name, version, savedAt(tool.Saved), policy.Plain(tool.File, 200), note)
	}
	return t.Flush()
}

func savedAt(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Local().Format(time.DateTime)
}

func toolsShowCommand() *cobra.Command {
	version, history := 0, false
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a saved tool's source",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tools, err := toolsFor(cmd)
			if err != nil {
				return err
			}
			if history {
				return printVersions(cmd.OutOrStdout(), tools, args[0])
			}
			text, err := tools.Read(args[0], version)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), shownSource(text.Source))
			return err
		},
	}
	cmd.Flags().IntVar(&version, "version", 0, "the version; 0 is the current")
	cmd.Flags().BoolVar(&history, "history", false, "list the versions that can be restored")
	return cmd
}

// shownSource is a source without what could steer a terminal.
func shownSource(text string) string {
	return strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\n' && r != '\t') || (r >= 0x7f && r < 0xa0) {
			return '\uFFFD'
		}
		return r
	}, text)
}

func printVersions(w io.Writer, tools *memory.Tools, name string) error {
	list, err := tools.Versions(name)
	if err != nil {
		return err
	}
	for _, v := range list {
		if _, err := fmt.Fprintf(w, "%d  %s  %s\n", v.Version, savedAt(v.Saved), byteSize(v.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

func toolsRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove saved tools; bridged tools restore brings them back",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tools, err := toolsFor(cmd)
			if err != nil {
				return err
			}
			var failed []error
			for _, name := range args {
				_, err := tools.Delete(cmd.Context(), name)
				failed = append(failed, err)
			}
			return errors.Join(failed...)
		},
	}
}

func toolsRestoreCommand() *cobra.Command {
	version := 0
	cmd := &cobra.Command{
		Use:   "restore NAME",
		Short: "Bring back an earlier version of a saved tool, or one that was removed",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tools, err := toolsFor(cmd)
			if err != nil {
				return err
			}
			saved, err := tools.Restore(cmd.Context(), args[0], version)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored as version %d\n", saved.Version)
			return err
		},
	}
	cmd.Flags().IntVar(&version, "version", 0, "the version; 0 is the one before the current")
	return cmd
}
