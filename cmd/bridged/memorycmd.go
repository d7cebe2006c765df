package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/memory"
	"github.com/bridged/bridged/pkg/policy"
)

func memoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Show, remove, save and bring back what code keeps for later sessions",
		Long: "Memories are what code has saved with save_memory(key, value): files that you may edit. This works\n" +
			"beside a daemon and without one. See docs/memory.md.",
		Args: cobra.NoArgs,
	}
	cmd.PersistentFlags().String("config", "", "configuration file (env BRIDGED_CONFIG)")
	cmd.AddCommand(memoryListCommand(), memoryShowCommand(), memoryRemoveCommand(), memoryRestoreCommand(), memoryExportCommand(), memoryImportCommand())
	return cmd
}

// storeFor opens the memories that a command is about.
func storeFor(cmd *cobra.Command) (*memory.Store, error) {
	c, p, err := loadFor(cmd)
	if err != nil {
		return nil, err
	}
	return openMemories(c, p), nil
}

func addProjectFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("project", false, "the memories of the project that the working folder is in")
}

// spaceFor opens the global memories, or the project's if a flag says so.
func spaceFor(cmd *cobra.Command) (*memory.Space, error) {
	s, err := storeFor(cmd)
	if err != nil {
		return nil, err
	}
	if project, err := cmd.Flags().GetBool("project"); err != nil || !project {
		return s.Global(), err
	}
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return s.Project(folder), nil
}

func memoryListCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List memories, those of all projects too",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, err := memoryRows(cmd)
			if err != nil {
				return err
			}
			kept := []memory.Row{}
			for _, r := range rows {
				if strings.HasPrefix(r.Key, strings.Join(args, "")) {
					kept = append(kept, r)
				}
			}
			if asJSON {
				return printMemoriesJSON(cmd.OutOrStdout(), kept)
			}
			return printMemories(cmd.OutOrStdout(), kept)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, a line each")
	addProjectFlag(cmd)
	return cmd
}

func memoryRows(cmd *cobra.Command) ([]memory.Row, error) {
	if cmd.Flags().Changed("project") {
		sp, err := spaceFor(cmd)
		if err != nil {
			return nil, err
		}
		return sp.List("")
	}
	s, err := storeFor(cmd)
	if err != nil {
		return nil, err
	}
	return s.All()
}

func printMemoriesJSON(w io.Writer, rows []memory.Row) error {
	for _, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

func printMemories(w io.Writer, rows []memory.Row) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "no memories")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tVERSION\tUPDATED\tSIZE\tPROJECT")
	for _, r := range rows {
		key := policy.Plain(r.Key, 60)
		if r.Broken != nil {
			fmt.Fprintf(t, "%s\t-\t-\t-\t%s\n", key, r.Project)
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", key, r.Version, r.Updated.Local().Format(time.DateTime), byteSize(r.Bytes), r.Project)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Broken != nil {
			fmt.Fprintf(w, "\n%s\n", policy.Plain(r.Broken.Error(), 400))
		}
	}
	return nil
}

func memoryShowCommand() *cobra.Command {
	history := false
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Print a memory's value as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			sp, err := spaceFor(cmd)
			if err != nil {
				return err
			}
			if history {
				return printHistory(cmd.OutOrStdout(), sp, args[0])
			}
			m, err := sp.Load(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				return noMemory(args[0])
			}
			if err != nil {
				return err
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			return e.Encode(m.Value)
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "list the versions that can be restored")
	addProjectFlag(cmd)
	return cmd
}

func noMemory(key string) error {
	return fmt.Errorf("there is no memory %q: bridged memory list shows them", key)
}

func printHistory(w io.Writer, sp *memory.Space, key string) error {
	list, err := sp.History(key)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return noMemory(key)
	}
	for _, e := range list {
		note := ""
		if e.Current {
			note = "  current"
		}
		if _, err := fmt.Fprintf(w, "%d  %s  %s%s\n", e.Version, e.Updated.Local().Format(time.DateTime), byteSize(e.Bytes), note); err != nil {
			return err
		}
	}
	return nil
}

func memoryRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm KEY...",
		Short: "Remove memories; bridged memory restore brings them back",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			sp, err := spaceFor(cmd)
			if err != nil {
				return err
			}
			var failed []error
			for _, key := range args {
				name, err := sp.Delete(cmd.Context(), key)
				if err == nil && name == "" {
					err = noMemory(key)
				}
				failed = append(failed, err)
			}
			return errors.Join(failed...)
		},
	}
	addProjectFlag(cmd)
	return cmd
}

func memoryRestoreCommand() *cobra.Command {
	version := int64(0)
	cmd := &cobra.Command{
		Use:   "restore KEY",
		Short: "Bring back an earlier version of a memory, or one that was removed",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			sp, err := spaceFor(cmd)
			if err != nil {
				return err
			}
			m, err := sp.Restore(cmd.Context(), args[0], version)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored as version %d\n", m.Version)
			return err
		},
	}
	cmd.Flags().Int64Var(&version, "version", 0, "the version; 0 is the one before the current")
	addProjectFlag(cmd)
	return cmd
}

func memoryExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write all memories of all projects to a file, or to the output",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := storeFor(cmd)
			if err != nil {
				return err
			}
			n, broken, err := exportTo(cmd.OutOrStdout(), s, args)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d memories exported\n", n)
			return errors.Join(broken...)
		},
	}
}

// exportTo writes to the file that is named, which appears whole or not at all.
func exportTo(w io.Writer, s *memory.Store, args []string) (int, []error, error) {
	if len(args) == 0 || args[0] == "-" {
		return s.Export(w)
	}
	f, err := renameio.NewPendingFile(args[0], renameio.WithPermissions(0o600), renameio.WithExistingPermissions())
	if err != nil {
		return 0, nil, fmt.Errorf("writing the backup: %w", err)
	}
	defer f.Cleanup() //nolint:errcheck // it is gone, or is in its place
	n, broken, err := s.Export(f)
	if err != nil {
		return 0, nil, err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return 0, nil, fmt.Errorf("writing the backup: %w", err)
	}
	return n, broken, nil
}

func memoryImportCommand() *cobra.Command {
	replace := false
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Save the memories of a file that export has written (- is the input)",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := storeFor(cmd)
			if err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("reading the backup: %w", err)
				}
				defer f.Close() //nolint:errcheck // it is only read
				in = f
			}
			done, err := s.Import(cmd.Context(), in, replace)
			if err != nil {
				return err
			}
			return printImported(cmd.OutOrStdout(), done)
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace memories that are there and differ; their history keeps them")
	return cmd
}

func printImported(w io.Writer, done memory.Imported) error {
	_, err := fmt.Fprintf(w, "%d added, %d replaced, %d the same\n", done.Added, done.Replaced, done.Same)
	if len(done.Kept) > 0 {
		fmt.Fprintf(w, "%d differ and were left as they are (--replace replaces them):\n", len(done.Kept))
		for _, key := range done.Kept {
			fmt.Fprintf(w, "  %s\n", policy.Plain(key, 60))
		}
	}
	return errors.Join(err, errors.Join(done.Failed...))
}
