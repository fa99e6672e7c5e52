package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between the platform and a service, and can take the service away.
type proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	cut      bool
	conns    map[net.Conn]struct{}
	serving  sync.WaitGroup
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	p.serving.Go(p.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		p.turn(true)
		p.serving.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// turn cuts the service off, with every connection, or gives it back.
func (p *proxy) turn(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for conn := range p.conns {
		if cut {
			_ = conn.Close()
		}
	}
}

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
	service, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(service) {
		return
	}
	defer p.forget(service)
	defer func() { _ = service.Close() }()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(service, conn); _ = service.Close() })
	_, _ = io.Copy(conn, service)
	_ = conn.Close()
	both.Wait()
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
