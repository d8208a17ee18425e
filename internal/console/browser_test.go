package console

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browser is a real Chromium without a window.
type browser struct{ ctx context.Context }

func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Fatal("no chromium: run make setup")
	}
	// Not t.TempDir: the browser's helpers write into it a moment longer than the browser lives.
	dir, err := os.MkdirTemp("", "sluice-browser-")
	if err != nil {
		t.Fatal(err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("lang", "en-US"),
	)
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() { cancel(); cancelAlloc(); _ = os.RemoveAll(dir) })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return &browser{ctx}
}

// tab is one page that is open. Whatever the page writes to its console, be it an error, a warning or a violation of the
// policy, fails the test when the page is closed.
type tab struct {
	t     *testing.T
	ctx   context.Context
	close func()

	mu       sync.Mutex
	messages []string
	allowed  string // a part of messages that are what the test is about
}

func (b *browser) open(t *testing.T, url string, width int64, scheme string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	p := &tab{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			p.mu.Lock()
			p.messages = append(p.messages, m.String())
			p.mu.Unlock()
		}
	})
	p.close = sync.OnceFunc(func() {
		cancel()
		reader.Wait()
		for _, m := range p.messages {
			if p.allowed == "" || !strings.Contains(m, p.allowed) {
				t.Errorf("%s: the browser says: %s", url, m)
			}
		}
	})
	t.Cleanup(p.close)
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS("main")))
	return p
}

// do runs steps and gives up after a minute.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 60*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// eval is the value of an expression.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.80s: %v", js, err)
	}
	return v
}

// wait polls until an expression is true, and says how long that took.
func (p *tab) wait(js string) time.Duration {
	p.t.Helper()
	began := time.Now()
	until(p.t, js, func() bool {
		ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
		defer cancel()
		// An error is a page on its way to another.
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+js+")"))
		return err == nil && ok
	})
	return time.Since(began)
}

func contains(page, what string) bool { return strings.Contains(page, what) }

func between(s, before, after string) string {
	_, rest, _ := strings.Cut(s, before)
	out, _, _ := strings.Cut(rest, after)
	return out
}
