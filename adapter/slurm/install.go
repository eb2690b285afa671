package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/autosched/autosched/internal/program"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// InstallFile replaces the included file and keeps the one before, for an account that may not write it. Anything but
// tuned settings in their ranges, and options that the site has already, is refused, unless it is the file before or
// the first one. It runs no program.
func (o Options) InstallFile(text []byte) error {
	o = o.Filled()
	for _, path := range []string{filepath.Dir(o.Include), o.Include} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() || info.Mode()&0o022 != 0 {
			return fmt.Errorf("%s: other accounts may write it: chown root, chmod go-w", path)
		}
	}
	site, err := conf.Read(o.Conf, os.ReadFile)
	if err != nil {
		return err
	}
	if err := site.Includes(o.Include); err != nil {
		return err
	}
	before, err := os.ReadFile(o.Include)
	if err != nil || bytes.Equal(before, text) {
		return err
	}
	kept := func(name string) bool {
		was, e := os.ReadFile(o.Include + name)
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
		return e == nil && bytes.Equal(bytes.TrimPrefix(text, []byte(putBack)), bytes.TrimPrefix(was, []byte(putBack)))
	}
	previous, original := kept(".prev"), kept(".orig")
	if err != nil {
		return err
	}
	if !previous && !original {
		own := site.Site(conf.Tunable())
		for _, p := range conf.Check(text, slices.Concat(own[conf.SchedulerParameters], own[conf.WeightTRES]),
			site.Get("AccountingStorageTRES")) {
			return p
		}
	}
	if err := keepOriginal(o.Include); err != nil {
		return err
	}
	if !previous {
		if err := place(o.Include+".prev", before); err != nil {
			return err
		}
	}
	return place(o.Include, text)
}

// place replaces the file.
func (t *Target) place(ctx context.Context, text []byte) error {
	if len(t.Install) == 0 {
		return place(t.Include, text)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := program.Command(ctx, t.Install)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.500s", strings.Join(t.Install, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
