package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/runtime"
)

func imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make, fetch and list the images of sandboxes",
	}
	cmd.AddCommand(imageBuildCommand(), imageImportCommand(), imagePullCommand(), imageListCommand())
	for _, sub := range cmd.Commands() {
		addFlags(sub.Flags())
	}
	return cmd
}

// An imageJob does something with an engine, and reports its progress.
type imageJob func(ctx context.Context, e runtime.Engine, c *config, progress runtime.Progress) error

// withEngine runs job on the engine that the daemon would use.
func withEngine(cmd *cobra.Command, job imageJob) error {
	c, _, err := loadFor(cmd)
	if err != nil {
		return err
	}
	engine, err := findEngine(cmd.Context(), c, zerolog.Nop())
	if err != nil {
		return err
	}
	defer engine.Close() //nolint:errcheck // the program ends next
	p := newProgress(os.Stderr, isTerminal(os.Stderr))
	defer p.end()
	return job(cmd.Context(), engine, c, p.report)
}

func imageBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the sandbox image from the Containerfile that is built in",
		Long:  "Builds the image that sandbox.image names from the Containerfile in this binary: Python 3.13\nwith numpy, pandas, scipy, scikit-learn, matplotlib and more. The engine fetches the base image.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withEngine(cmd, func(ctx context.Context, e runtime.Engine, c *config, progress runtime.Progress) error {
				ref := string(c.Sandbox.Image)
				if err := e.Build(ctx, ref, images.ContextTar(), progress); err != nil {
					return fmt.Errorf("building %s: %w", ref, err)
				}
				return report(ctx, cmd.OutOrStdout(), e, ref)
			})
		},
	}
}

func imageImportCommand() *cobra.Command {
	var file, tag string
	cmd := &cobra.Command{
		Use:   "import --file TAR",
		Short: "Make the sandbox image from a root file system",
		Long:  "Makes an image from a tar of a root file system that has Python 3.9 or later in it,\nsuch as images/debian.sh in the source tree makes without any registry.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withEngine(cmd, func(ctx context.Context, e runtime.Engine, c *config, progress runtime.Progress) error {
				return importImage(ctx, cmd.OutOrStdout(), e, importFrom{file, or(tag, string(c.Sandbox.Image))}, progress)
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "the tar; - for stdin")
	cmd.Flags().StringVar(&tag, "tag", "", "name of the image; empty: the configured sandbox.image")
	cobra.CheckErr(cmd.MarkFlagRequired("file"))
	return cmd
}

type importFrom struct{ file, ref string }

func importImage(ctx context.Context, out io.Writer, e runtime.Engine, from importFrom, progress runtime.Progress) error {
	in := os.Stdin
	if from.file != "-" {
		f, err := os.Open(from.file)
		if err != nil {
			return fmt.Errorf("importing an image: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	if info, err := in.Stat(); err == nil && info.Mode().IsRegular() {
		progress = ofTotal(progress, info.Size())
	}
	changes := []string{`LABEL ` + runtime.LabelImage + `=true`}
	if err := e.Import(ctx, from.ref, in, changes, progress); err != nil {
		return fmt.Errorf("importing %s: %w", from.ref, err)
	}
	return report(ctx, out, e, from.ref)
}

// ofTotal tells a progress that counts bytes how many there are: a stream does
// not know, its file does.
func ofTotal(p runtime.Progress, size int64) runtime.Progress {
	return func(step string, done, total int64) {
		if total == 0 && done > 0 {
			total = size
		}
		p(step, done, total)
	}
}

func imagePullCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pull [IMAGE]",
		Short: "Fetch an image from its registry",
		Long:  "Fetches IMAGE, or the one that sandbox.image names, through the engine.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withEngine(cmd, func(ctx context.Context, e runtime.Engine, c *config, progress runtime.Progress) error {
				ref := string(c.Sandbox.Image)
				if len(args) == 1 {
					ref = args[0]
				}
				if strings.HasPrefix(ref, "localhost/") {
					return fmt.Errorf("pulling %s: it is a name for images made here; use `bridged image build` or `import`", ref)
				}
				if err := e.Pull(ctx, ref, "", progress); err != nil {
					return fmt.Errorf("pulling %s: %w", ref, err)
				}
				return report(ctx, cmd.OutOrStdout(), e, ref)
			})
		},
	}
}

// report prints what an image is, as proof that the engine has it.
func report(ctx context.Context, w io.Writer, e runtime.Engine, ref string) error {
	img, err := e.Image(ctx, ref)
	if err != nil {
		return fmt.Errorf("looking for %s: %w", ref, err)
	}
	_, err = fmt.Fprintf(w, "%s  %s  %d MB\n", ref, shortID(img.ID), img.Size/1e6)
	return err
}

func imageListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the sandbox images that were made here, and the one in use",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withEngine(cmd, func(ctx context.Context, e runtime.Engine, c *config, _ runtime.Progress) error {
				return listImages(ctx, cmd.OutOrStdout(), e, string(c.Sandbox.Image))
			})
		},
	}
}

func listImages(ctx context.Context, w io.Writer, e runtime.Engine, used string) error {
	list, err := e.Images(ctx)
	if err != nil {
		return fmt.Errorf("listing images: %w", err)
	}
	inUse, err := e.Image(ctx, used)
	if err != nil && !errors.Is(err, runtime.ErrNoImage) {
		return fmt.Errorf("looking for %s: %w", used, err)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "IMAGE\tID\tSIZE\tCREATED\t")
	found := false
	for _, img := range list {
		mark := ""
		if err == nil && img.ID == inUse.ID {
			mark, found = "in use", true
		}
		printImage(t, strings.Join(img.Refs, " "), img, mark)
	}
	switch {
	case err != nil:
		fmt.Fprintf(t, "%s\tnot there\t\t\tin use\n", used)
	case !found:
		printImage(t, used, inUse, "in use")
	}
	return t.Flush()
}

func printImage(w io.Writer, name string, img runtime.Image, mark string) {
	fmt.Fprintf(w, "%s\t%s\t%d MB\t%s\t%s\n", or(name, "<none>"), shortID(img.ID), img.Size/1e6, img.Created.Format(time.DateOnly), mark)
}

func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(12, len(id))]
}
