// Package trytontest gives a test a Tryton database of its own, on the server that the project's script
// started, and a clerk who works in it.
package trytontest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"andes/test/pgtest"
)

// The user that the template knows.
const (
	User     = "admin"
	Password = "admin"
)

const (
	template = "tryton_template"
	patience = time.Minute
)

// Company is the template's only one.
const Company = 1

// Server is a Tryton with a database of the test's own.
type Server struct {
	URL      string
	Database string
	t        testing.TB
	session  string
}

// Open copies the template. The copy is dropped when the test ends. A missing Tryton is a failure.
func Open(t testing.TB) *Server {
	t.Helper()
	url := os.Getenv("ANDES_TRYTON_URL")
	if url == "" {
		t.Fatal("ANDES_TRYTON_URL is not set: run the tests by `make test`, or `eval \"$(scripts/services env test)\"` after `scripts/services start test tryton`")
	}
	s := &Server{URL: url, Database: "tryton_" + strings.ReplaceAll(uuid.NewString()[:13], "-", ""), t: t}
	s.execute("CREATE DATABASE " + s.Database + " TEMPLATE " + template)
	t.Cleanup(func() { s.execute("DROP DATABASE " + s.Database + " WITH (FORCE)") })
	s.session = s.login()
	return s
}

func (s *Server) execute(statement string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, pgtest.URL(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		s.t.Fatal(err)
	}
}

// SQL changes the database past Tryton's own code.
func (s *Server) SQL(statement string, arguments ...any) {
	s.t.Helper()
	conn := s.Connect()
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(s.t.Context(), statement, arguments...); err != nil {
		s.t.Fatal(err)
	}
}

// Connect opens the database itself.
func (s *Server) Connect() *pgx.Conn {
	s.t.Helper()
	config, err := pgx.ParseConfig(pgtest.URL(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	config.Database = s.Database
	conn, err := pgx.ConnectConfig(s.t.Context(), config)
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func (s *Server) login() string {
	s.t.Helper()
	var opened []json.RawMessage
	s.decode(s.post("", "common.db.login", User, map[string]string{"password": Password}, "en"), &opened)
	var token string
	s.decode(opened[1], &token)
	return "Session " + base64.StdEncoding.EncodeToString([]byte(User+":"+string(opened[0])+":"+token))
}

// Call is what a clerk does in the client: it has to succeed. The context is added.
func (s *Server) Call(result any, method string, params ...any) {
	s.t.Helper()
	answer := s.post(s.session, method, append(params, map[string]any{"company": Company})...)
	if result != nil {
		s.decode(answer, result)
	}
}

// Create makes a record and gives its id.
func (s *Server) Create(model string, values map[string]any) int64 {
	s.t.Helper()
	var ids []int64
	s.Call(&ids, "model."+model+".create", []any{values})
	return ids[0]
}

// Write changes a record.
func (s *Server) Write(model string, id int64, values map[string]any) {
	s.t.Helper()
	s.Call(nil, "model."+model+".write", []int64{id}, values)
}

// Find gives the id of the one record whose field has this value.
func (s *Server) Find(model, field string, value any) int64 {
	s.t.Helper()
	var ids []int64
	s.Call(&ids, "model."+model+".search", []any{[]any{field, "=", value}}, 0, 2, nil)
	if len(ids) != 1 {
		s.t.Fatalf("%d records of %s with %s %v", len(ids), model, field, value)
	}
	return ids[0]
}

// Decimal is an exact number on the wire.
func Decimal(text string) map[string]any {
	return map[string]any{"__class__": "Decimal", "decimal": text}
}

func (s *Server) post(session, method string, params ...any) json.RawMessage {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"id": 1, "method": method, "params": params})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/"+s.Database+"/", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", session)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var got struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got.Error != nil {
		s.t.Fatal(fmt.Errorf("%s: status %d: %s %w", method, response.StatusCode, got.Error, err))
	}
	return got.Result
}

func (s *Server) decode(raw json.RawMessage, into any) {
	s.t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		s.t.Fatal(err)
	}
}
