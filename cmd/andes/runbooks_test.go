package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	runbooks   = "../../docs/runbooks"
	alertRules = "../../deploy/alerts"
)

// page is what is compared of a runbook.
type page struct {
	sections []string // their levels
	commands []string
	links    []string
}

var (
	heading = regexp.MustCompile(`^(#+) \S`)
	link    = regexp.MustCompile(`\]\(([^)#:]+)\)`)
)

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var p page
	inCode := false
	for text := range strings.Lines(string(text)) {
		line := strings.TrimRight(text, "\n")
		if strings.HasPrefix(line, "```") {
			inCode = !inCode
			continue
		}
		if command, is := strings.CutPrefix(line, "$ "); is && inCode {
			p.commands = append(p.commands, command)
		}
		if inCode {
			continue
		}
		if found := heading.FindStringSubmatch(line); found != nil {
			p.sections = append(p.sections, found[1])
		}
		for _, found := range link.FindAllStringSubmatch(line, -1) {
			p.links = append(p.links, found[1])
		}
	}
	if inCode {
		t.Errorf("%s: a block of code does not end", name)
	}
	return p
}

func pages(t *testing.T, language string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(runbooks, language, "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no runbooks in %s: %v", language, err)
	}
	for i, file := range files {
		files[i] = filepath.Base(file)
	}
	return files
}

func TestRunbooksSayTheSameInBothLanguages(t *testing.T) {
	english, spanish := pages(t, "en"), pages(t, "es")
	if !slices.Equal(english, spanish) {
		t.Fatalf("the files are not the same:\nen %v\nes %v", english, spanish)
	}
	for _, name := range english {
		en, es := readPage(t, filepath.Join(runbooks, "en", name)), readPage(t, filepath.Join(runbooks, "es", name))
		if !slices.Equal(en.sections, es.sections) {
			t.Errorf("%s: the sections are not the same:\nen %v\nes %v", name, en.sections, es.sections)
		}
		if !slices.Equal(en.commands, es.commands) {
			t.Errorf("%s: the commands are not the same:\nen %s\nes %s", name, strings.Join(en.commands, "\n   "), strings.Join(es.commands, "\n   "))
		}
		if !slices.Equal(en.links, es.links) {
			t.Errorf("%s: the links are not the same:\nen %v\nes %v", name, en.links, es.links)
		}
	}
}

func TestRunbooksLinkToWhatIsThere(t *testing.T) {
	for _, language := range []string{"en", "es"} {
		for _, name := range pages(t, language) {
			for _, to := range readPage(t, filepath.Join(runbooks, language, name)).links {
				if _, err := os.Stat(filepath.Join(runbooks, language, to)); err != nil {
					t.Errorf("%s/%s: %v", language, name, err)
				}
			}
		}
	}
}

// variable is what a reader of a runbook puts in for himself.
var variable = regexp.MustCompile(`\$\w+`)

func TestTheCommandsOfTheRunbooksAreThoseOfTheProduct(t *testing.T) {
	parsed := 0
	for _, name := range pages(t, "en") {
		for _, line := range readPage(t, filepath.Join(runbooks, "en", name)).commands {
			words, is := strings.CutPrefix(line, "andes ")
			if !is {
				continue
			}
			parsed++
			words, _, _ = strings.Cut(words, " | ")
			var arguments cli
			if _, err := newParser(&arguments).Parse(split(variable.ReplaceAllString(words, "order/1"))); err != nil {
				t.Errorf("%s: andes %s: %v", name, words, err)
			}
		}
	}
	if parsed < 20 {
		t.Errorf("only %d commands are in the runbooks", parsed)
	}
}

// split cuts a command line into its words as a shell does, as far as the runbooks need it.
func split(line string) []string {
	var words []string
	for _, found := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, found[1]+found[2]+found[3])
	}
	return words
}

// alertRule is what is read of a rule.
type alertRule struct {
	Alert       string
	Labels      map[string]string
	Annotations map[string]string
}

func readAlerts(t *testing.T) (rules []alertRule) {
	t.Helper()
	text, err := os.ReadFile(alertRules + "/andes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

func TestEveryAlertIsTriedAndSaysWhatToDo(t *testing.T) {
	files, err := filepath.Glob(alertRules + "/tests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var trials strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		trials.Write(text)
	}
	index, err := os.ReadFile(runbooks + "/en/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range readAlerts(t) {
		if severity := rule.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s: severity %q", rule.Alert, severity)
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", rule.Alert)
		}
		if !slices.Contains(pages(t, "en"), strings.TrimPrefix(rule.Annotations["runbook_url"], "en/")) {
			t.Errorf("%s: there is no runbook %q", rule.Alert, rule.Annotations["runbook_url"])
		}
		if !strings.Contains(trials.String(), `alertname="`+rule.Alert+`"`) {
			t.Errorf("%s is not tried in %s/tests", rule.Alert, alertRules)
		}
		if !strings.Contains(string(index), "`"+rule.Alert+"`") {
			t.Errorf("%s is not in the index of the runbooks", rule.Alert)
		}
	}
}
