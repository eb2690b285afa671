// Package browser tests the dashboard in Chromium, against a running service with an emulated cluster.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds how long a test waits for anything: far above the needs of a busy machine.
const patience = 5 * time.Minute

// program is the built autosched, and allocator starts browsers.
var (
	program   string
	allocator context.Context
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	chromium := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			chromium = at
			break
		}
	}
	if chromium == "" {
		fmt.Println("browser: SKIPPED, there is no chromium")
		if os.Getenv("AUTOSCHED_REQUIRE_CHROMIUM") != "" {
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "autosched")
	build := exec.Command("go", "build", "-C", "../..", "-trimpath", "-o", program, "./cmd/autosched")
	if text, err := build.CombinedOutput(); err != nil {
		fmt.Printf("%v\n%s", err, text)
		return 1
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.WSURLReadTimeout(patience))
	background, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	var end context.CancelFunc
	allocator, end = chromedp.NewContext(background)
	defer end()
	if err := chromedp.Do(allocator); err != nil {
		fmt.Println("chromium does not start:", err)
		return 1
	}
	return m.Run()
}

// output is a program's, as far as it has come.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process runs the program until the test ends.
func process(t *testing.T, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	var o output
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &o, &o
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("autosched %s:\n%.6000s", strings.Join(args, " "), o.String())
		}
	})
	return cmd, &o
}

// eventually waits until f is true.
func eventually(t *testing.T, goal string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, goal)
		}
	}
}

// service is a running service.
type service struct {
	grpc, pages string // address, and URL without a path
	stop        func()
	dir         string
	flags       []string
}

var (
	servesGRPC  = regexp.MustCompile(`msg=serving address=(\S+)`)
	servesPages = regexp.MustCompile(`msg="answering HTTP[^"]*" address=(\S+)`)
)

// serve starts a service in a folder, at any addresses.
func serve(t *testing.T, dir, listen, operations string, flags ...string) *service {
	t.Helper()
	cmd, out := process(t, append([]string{"serve", "--dir", dir, "--listen", listen,
		"--operations", operations}, flags...)...)
	s := &service{dir: dir, flags: flags, stop: func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}}
	eventually(t, "the service", func() bool {
		g, p := servesGRPC.FindStringSubmatch(out.String()), servesPages.FindStringSubmatch(out.String())
		if g == nil || p == nil {
			return false
		}
		s.grpc, s.pages = g[1], "http://"+p[1]
		return true
	})
	return s
}

// call runs a command against the service and returns its output.
func (s *service) call(t *testing.T, args ...string) string {
	t.Helper()
	text, err := exec.Command(program, append(args, "--server", s.grpc)...).CombinedOutput()
	if err != nil {
		t.Fatalf("autosched %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return string(text)
}

// tab is a tab of the browser. It notes the faults in it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

// open opens a tab. Faults are errors in its console, exceptions, and requests that leave the service, but for the
// browser's own pictures of controls.
func open(t *testing.T, s *service) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, 2*patience)
	t.Cleanup(stop)
	p := &tab{t: t, ctx: ctx}
	home, err := url.Parse(s.pages)
	if err != nil {
		t.Fatal(err)
	}
	p.do()
	listen := func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				p.fault("console: %s", e.Args[0].Value)
			}
		case *runtime.EventExceptionThrown:
			p.fault("exception: %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				p.fault("log: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || u.Host != home.Host && u.Scheme != "data" {
				p.fault("request: %s", e.Request.URL)
			}
		}
	}
	if err := chromedp.Listen(ctx, listen); err != nil {
		t.Fatal(err)
	}
	command(p, network.Enable, network.EnableParams{})
	command(p, log.Enable, cdp.Empty{})
	command(p, runtime.Enable, cdp.Empty{})
	return p
}

func (p *tab) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// takeFaults returns the faults so far, and forgets them.
func (p *tab) takeFaults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.faults
	p.faults = nil
	return out
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// command runs a command of the DevTools protocol in a tab.
func command[P, R any](p *tab, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, c, params)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// js evaluates an expression in the page, past its content security policy.
func js[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// text is the page's, as a reader sees it.
func (p *tab) text() string {
	p.t.Helper()
	return js[string](p, `document.body ? document.body.innerText : ""`)
}

// sees waits until the page shows a text.
func (p *tab) sees(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text := p.text()
		if found := re.FindStringSubmatch(text); found != nil {
			return found
		}
		if time.Now().After(end) {
			p.t.Fatalf("waited %v for the page to show %s:\n%s", patience, pattern, text)
		}
	}
}

// size sets the window's.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	command(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
}

// click clicks on the button or link with the text.
func (p *tab) click(text string) {
	p.t.Helper()
	quoted, _ := json.Marshal(text)
	eventually(p.t, "a button "+text, func() bool {
		return js[bool](p, fmt.Sprintf(`(() => {
			const all = [...document.querySelectorAll("dialog[open] button, dialog[open] a")];
			const from = all.length ? all : [...document.querySelectorAll("button, a")];
			const it = from.find(e => e.textContent.trim() === %s && !e.disabled);
			it?.click();
			return Boolean(it);
		})()`, quoted))
	})
}
