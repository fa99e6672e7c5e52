package e2e

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between the platform and a service, and can take the service away without touching it. With
// several targets it is a load balancer: a connection goes to the next one that accepts it.
type proxy struct {
	listener net.Listener
	targets  func() []string
	next     atomic.Int64
	serving  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	cut     bool // connections are closed, and new ones as soon as they come
	stalled bool // nothing passes and nobody is told, as when a cable is pulled
	delay   time.Duration
	conns   map[net.Conn]struct{}
}

func startProxy(t *testing.T, targets func() []string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, targets: targets, conns: map[net.Conn]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.serving.Go(p.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		p.turn(func(p *proxy) { p.cut, p.stalled = true, false })
		p.serving.Wait()
	})
	return p
}

// before puts a proxy in front of one address.
func before(t *testing.T, target string) *proxy {
	return startProxy(t, func() []string { return []string{target} })
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// turn changes what the proxy does to connections, old and new.
func (p *proxy) turn(change func(p *proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	for conn := range p.conns {
		if p.cut {
			_ = conn.Close()
		}
	}
	p.changed.Broadcast()
}

// Ways to take a service away.
func cut(p *proxy)     { p.cut = true }
func stall(p *proxy)   { p.stalled = true }
func restore(p *proxy) { p.cut, p.stalled, p.delay = false, false, 0 }

func (p *proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.carry(conn) })
	}
}

func (p *proxy) carry(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if !p.keep(conn) {
		return
	}
	defer p.forget(conn)
	service := p.dial()
	if service == nil {
		return
	}
	defer func() { _ = service.Close() }()
	if !p.keep(service) {
		return
	}
	defer p.forget(service)
	var both sync.WaitGroup
	both.Go(func() { p.copy(service, conn) })
	p.copy(conn, service)
	both.Wait()
}

// dial asks each target once, beginning with the next.
func (p *proxy) dial() net.Conn {
	targets := p.targets()
	first := p.next.Add(1)
	for n := range targets {
		target := targets[(int(first)+n)%len(targets)]
		if conn, err := net.Dial("tcp", target); err == nil {
			return conn
		}
	}
	return nil
}

// copy carries bytes until one side ends; then both do.
func (p *proxy) copy(to, from net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.pass()
			if _, failed := to.Write(buffer[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits for as long as the proxy holds bytes back.
func (p *proxy) pass() {
	p.mu.Lock()
	for p.stalled && !p.cut {
		p.changed.Wait()
	}
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
}

func (p *proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *proxy) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}
