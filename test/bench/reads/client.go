//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"andes/test/bench/andes"
)

// question is a request as it goes over the wire, and the body that has to come back.
type question struct{ request, want []byte }

// ask puts the questions to a server for a turn. The client is one thread over epoll with connections that are kept:
// for each answer one read and one write, and no goroutine that has to be woken. Each connection has one question
// under way. Every answer is compared byte for byte.
func ask(of *andes.Server, questions []question, o options) (side, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return side{}, err
	}
	defer func() { _ = syscall.Close(poll) }()
	lines := map[int32]*line{}
	for i := range o.connections {
		l, err := dial(of.Address, i)
		if err != nil {
			return side{}, err
		}
		defer func() { _ = syscall.Close(l.socket) }()
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(l.socket)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, l.socket, &event); err != nil {
			return side{}, err
		}
		lines[event.Fd] = l
		if err := l.send(questions); err != nil {
			return side{}, err
		}
	}
	begin := time.Now()
	counted, end := begin.Add(o.turn/warmUp), begin.Add(o.turn+o.turn/warmUp)
	var result side
	var began meters
	events := make([]syscall.EpollEvent, o.connections)
	for counting := false; ; {
		n, err := syscall.EpollWait(poll, events, int(answerWait.Milliseconds()))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return side{}, fmt.Errorf("no answer within %s: %w", answerWait, err)
		}
		now := time.Now()
		switch {
		case !counting && now.After(counted):
			counting, counted, result.answers, began = true, now, 0, metersOf(of)
		case now.After(end):
			result.took = now.Sub(counted)
			ended := metersOf(of)
			result.client, result.server = ended.self-began.self, ended.server-began.server
			return result, nil
		}
		for _, event := range events[:n] {
			answered, err := lines[event.Fd].receive(questions)
			if err != nil {
				return side{}, err
			}
			if answered {
				result.answers++
			}
		}
	}
}

// answerWait is how long a server may be silent, on all connections.
const answerWait = 10 * time.Second

// line is a connection with one question under way.
type line struct {
	socket int
	asked  int // index of the question
	buffer []byte
	filled int
}

func dial(address string, first int) (*line, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	target := &syscall.SockaddrInet4{Port: port}
	copy(target.Addr[:], net.ParseIP(host).To4())
	if err := errors.Join(syscall.Connect(socket, target), syscall.SetsockoptInt(socket, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)); err != nil {
		_ = syscall.Close(socket)
		return nil, err
	}
	return &line{socket: socket, asked: first, buffer: make([]byte, 16<<10)}, nil
}

// send writes the next question. It is small and nothing else is under way, so it always fits.
func (l *line) send(questions []question) error {
	l.asked = (l.asked + 1) % len(questions)
	l.filled = 0
	n, err := syscall.Write(l.socket, questions[l.asked].request)
	if err == nil && n != len(questions[l.asked].request) {
		err = errors.New("a question was written in part")
	}
	return err
}

var (
	headerEnd = []byte("\r\n\r\n")
	okLine    = []byte("HTTP/1.1 200 ")
	length    = []byte("\r\nContent-Length: ")
)

// receive reads what there is. When the answer is whole it is checked, and the next question is sent.
func (l *line) receive(questions []question) (bool, error) {
	n, err := syscall.Read(l.socket, l.buffer[l.filled:])
	if err != nil || n == 0 {
		return false, fmt.Errorf("the server closed a connection: %w", err)
	}
	l.filled += n
	answer := l.buffer[:l.filled]
	end := bytes.Index(answer, headerEnd)
	if end < 0 {
		return false, nil
	}
	header, body := answer[:end], answer[end+len(headerEnd):]
	at := bytes.Index(header, length)
	if !bytes.HasPrefix(header, okLine) || at < 0 {
		return false, fmt.Errorf("answered %s\n%s", header, body)
	}
	size := 0
	for _, digit := range header[at+len(length):] {
		if digit < '0' || digit > '9' {
			break
		}
		size = size*10 + int(digit-'0')
	}
	if len(body) < size {
		return false, nil
	}
	if !bytes.Equal(body, questions[l.asked].want) {
		return false, fmt.Errorf("answered\n%s\nwant\n%s", body, questions[l.asked].want)
	}
	return true, l.send(questions)
}
