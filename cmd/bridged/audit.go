package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/audit"
)

func auditCommand() *cobra.Command {
	var f auditFilter
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what agents ran and called",
		Long: "Shows the audit log: a line for each run of code and for each call of an MCP server's tool.\n" +
			"Filters may be globs, and all of them have to match. docs/audit.md describes the log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := auditFolder(cmd)
			if err != nil {
				return err
			}
			if err := f.check(time.Now()); err != nil {
				return err
			}
			return f.show(cmd.Context(), dir, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.addFlags(cmd)
	cmd.PersistentFlags().String("config", "", "configuration file (env BRIDGED_CONFIG)")
	cmd.PersistentFlags().String("path", "", "folder of the audit log; empty: the daemon's")
	cmd.AddCommand(auditVerifyCommand(), auditHeadCommand(), auditDigestCommand())
	return cmd
}

// auditFolder is the folder that a command of the audit looks into.
func auditFolder(cmd *cobra.Command) (string, error) {
	dir, err := cmd.Flags().GetString("path")
	if err != nil || dir != "" {
		return dir, err
	}
	_, p, err := loadFor(cmd)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(p.audit); err != nil {
		return "", fmt.Errorf("there is no audit log in %s: a daemon writes one as soon as it runs with audit.enabled (%w)", p.audit, err)
	}
	return p.audit, nil
}

func auditVerifyCommand() *cobra.Command {
	var anchors []string
	cmd := &cobra.Command{
		Use:   "verify [FILE...]",
		Short: "Check that no line of the audit log was changed, removed or moved",
		Long: "Checks each line and the chain over all files of the log, or over the FILEs, the oldest first.\n" +
			"The exit code is 1 if it does not hold, and the message names the first file and line where it does not.\n" +
			"Whoever can write the log can also make a new one that holds: keep what `bridged audit head` prints\n" +
			"elsewhere, and give it as --anchor.",
		RunE: func(cmd *cobra.Command, args []string) error {
			heads, err := parseAnchors(anchors)
			if err != nil {
				return err
			}
			r, err := verifyAudit(cmd, args, heads)
			for _, note := range r.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok: %d lines in %d files, %d to %d; %d starts, %d lines could not be written\nhead %d:%s\n",
				r.Lines, r.Files, r.First, r.Last.Seq, r.Starts, r.Gaps, r.Last.Seq, r.Last.Hash)
			return err
		},
	}
	cmd.Flags().StringSliceVar(&anchors, "anchor", nil, "a line that must be there, as `SEQ:HASH`; may be given several times")
	return cmd
}

func verifyAudit(cmd *cobra.Command, files []string, anchors []audit.Head) (audit.Report, error) {
	if len(files) > 0 {
		return audit.VerifyFiles(files, anchors...)
	}
	dir, err := auditFolder(cmd)
	if err != nil {
		return audit.Report{}, err
	}
	return audit.Verify(dir, anchors...)
}

func parseAnchors(texts []string) ([]audit.Head, error) {
	var heads []audit.Head
	for _, text := range texts {
		seq, hash, ok := strings.Cut(text, ":")
		n, err := strconv.ParseUint(seq, 10, 64)
		if !ok || err != nil || hash == "" {
			return nil, fmt.Errorf("--anchor %q: write SEQ:HASH, as bridged audit head prints it", text)
		}
		heads = append(heads, audit.Head{Seq: n, Hash: hash})
	}
	return heads, nil
}

func auditHeadCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "head",
		Short: "Print the number and the hash of the last line",
		Long: "Prints SEQ:HASH of the log's last line. It stands for all lines before: kept elsewhere, and given to\n" +
			"`bridged audit verify --anchor`, it shows any change made to them later.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := auditFolder(cmd)
			if err != nil {
				return err
			}
			h, err := audit.HeadOf(dir)
			if err != nil {
				return err
			}
			if asJSON {
				h.File = filepath.Join(dir, h.File)
				return json.NewEncoder(cmd.OutOrStdout()).Encode(h)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d:%s\n", h.Seq, h.Hash)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the file's path")
	return cmd
}

func auditDigestCommand() *cobra.Command {
	var code bool
	cmd := &cobra.Command{
		Use:   "digest",
		Short: "Print the digest that the log has for the arguments on stdin",
		Long: "Reads arguments, a JSON object, from stdin and prints what the log has in their place, so that lines\n" +
			"with just these arguments can be found.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := auditFolder(cmd)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("reading stdin: %w", err)
			}
			if !code && !json.Valid(text) {
				return errors.New("stdin is no JSON; with --code it is taken for code")
			}
			digest, err := audit.DigestOf(dir, text, code)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), digest)
			return err
		},
	}
	cmd.Flags().BoolVar(&code, "code", false, "stdin is code, of a run, to the byte")
	return cmd
}
