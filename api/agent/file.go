package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// File is the configuration file of an emulated scheduler.
type File struct {
	// Path is the file of the first instance. The files of the others have .2, .3 and so on added.
	Path string
	// Reload has the instances read their files again. The new values of an instance are written to its file's
	// name with ".running" added, below the reason if it refuses the file.
	Reload <-chan os.Signal
}

// reloads is nil for a scheduler without a file, so that nothing comes.
func (f *File) reloads() <-chan os.Signal {
	if f == nil {
		return nil
	}
	return f.Reload
}

// configured is an instance that has its configuration from a file.
type configured struct {
	i      *instance
	path   string
	wake   chan struct{} // has it read the file again
	text   []byte        // last read
	runs   space.Config  // that it says it runs
	answer string        // why it refused the text; "" if it did not
}

func (i *instance) configuredBy(f *File, n int) *configured {
	c := &configured{i: i, path: f.Path, wake: make(chan struct{}, 1)}
	if n > 0 {
		c.path = fmt.Sprint(f.Path, ".", n+1)
	}
	return c
}

// reload does not wait for an instance that is down or hangs: it reads its file when it can.
func (c *configured) reload() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// begin starts a life with the file's values. Without one the scheduler runs its defaults.
func (c *configured) begin(ctx context.Context) error {
	text, config, err := c.read()
	if errors.Is(err, fs.ErrNotExist) {
		config, err = c.i.agent.o.Scheduler.Space.Default(), nil
	}
	if err == nil {
		c.text, c.answer = text, ""
		c.runs, err = c.i.put(ctx, c.path, config, nil)
	}
	if err != nil {
		return err
	}
	return c.say()
}

// follow reads the file again after each reload.
func (c *configured) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		text, config, err := c.read()
		if err == nil && bytes.Equal(text, c.text) {
			err = c.say() // nothing new
		} else {
			c.text, c.answer = text, ""
			if err == nil && !config.Equal(c.runs) {
				config, err = c.i.put(ctx, c.path, config, nil)
			}
			if ctx.Err() != nil {
				return // it crashed
			}
			if err != nil {
				c.answer = err.Error()
			} else {
				c.runs = config
			}
			err = c.say()
		}
		if err != nil {
			c.i.agent.o.Notify(err)
		}
	}
}

func (c *configured) read() (text []byte, config space.Config, err error) {
	if text, err = os.ReadFile(c.path); err != nil {
		return nil, config, err
	}
	s := c.i.agent.o.Scheduler
	values, err := s.Form().Parse(text)
	if err == nil {
		config, err = native.Config(s.Space, values)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", c.path, err)
	}
	return text, config, err
}

// say writes the values that the scheduler reports.
func (c *configured) say() error {
	text, err := c.i.agent.o.Scheduler.Form().Render(native.ValuesOf(c.runs))
	if err != nil {
		return err
	}
	if c.answer != "" {
		text = append([]byte("# refused: "+strings.ReplaceAll(c.answer, "\n", " ")+"\n"), text...)
	}
	out, err := atomicfile.CreatePlain(c.path + ".running")
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return out.Finish(err)
}
