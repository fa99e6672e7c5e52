package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"andes/eventstore"
)

// document is an AsyncAPI 3.0 document, as far as it is used here.
type document struct {
	AsyncAPI   string `yaml:"asyncapi"`
	Info       info
	Default    string `yaml:"defaultContentType"`
	Channels   map[string]channel
	Operations map[string]operation
	Components components
}

type info struct {
	Title, Version, Description string
}

type channel struct {
	Address     string
	Description string
	Messages    map[string]reference
}

type reference struct {
	Ref string `yaml:"$ref"`
}

type operation struct {
	Action  string
	Channel reference
}

type components struct {
	Messages map[string]message
	Schemas  map[string]*schema
}

type message struct {
	Name, Title, Summary string
	ContentType          string `yaml:"contentType"`
	Headers, Payload     reference
	Examples             []sample `yaml:",omitempty"`
}

type sample struct {
	Payload any
}

type schema struct {
	Ref         string             `yaml:"$ref,omitempty"`
	Type        string             `yaml:",omitempty"`
	Format      string             `yaml:",omitempty"`
	Description string             `yaml:",omitempty"`
	Required    []string           `yaml:",omitempty"`
	Properties  map[string]*schema `yaml:",omitempty"`
	Items       *schema            `yaml:",omitempty"`
	Additional  *schema            `yaml:"additionalProperties,omitempty"`
	Sensitive   bool               `yaml:"x-sensitive,omitempty"`
}

const (
	toSchemas  = "#/components/schemas/"
	toMessages = "#/components/messages/"
	toChannels = "#/channels/"
	jsonMedia  = "application/json"
)

// asyncAPI describes every topic that others may read.
func asyncAPI(registry *eventstore.Registry) (string, error) {
	d := document{
		AsyncAPI: "3.0.0", Default: jsonMedia,
		Info:     info{"Andes", "1", "Topics of the Andes platform. Written by `go test ./test/events -update`; do not edit."},
		Channels: map[string]channel{}, Operations: map[string]operation{},
		Components: components{Messages: map[string]message{}, Schemas: map[string]*schema{
			"headers": headerSchema(),
			"money": {Type: "object", Required: []string{"amount", "currency"}, Properties: map[string]*schema{
				"amount":   {Type: "string", Description: "decimal text with all decimals of the currency"},
				"currency": {Type: "string", Description: "ISO 4217"},
			}},
		}},
	}
	for _, category := range registry.Categories() {
		if err := d.addCategory(registry, category); err != nil {
			return "", err
		}
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(d); err != nil {
		return "", fmt.Errorf("asyncapi: %w", err)
	}
	return text.String(), nil
}

func headerSchema() *schema {
	all := &schema{Type: "object", Properties: map[string]*schema{}}
	for _, name := range headers() {
		all.Properties[name] = &schema{Type: "string"}
	}
	return all
}

func (d *document) addCategory(registry *eventstore.Registry, category string) error {
	for _, declaration := range registry.Declarations(category) {
		shown, err := os.ReadFile(goldenFile(declaration.Name, declaration.Schema))
		if err != nil {
			return fmt.Errorf("the example of %s: %w", declaration.Name, err)
		}
		var payload any
		if err := json.Unmarshal(shown, &payload); err != nil {
			return fmt.Errorf("the example of %s: %w", declaration.Name, err)
		}
		d.addMessage(declaration.Name, declaration.Doc, declaration.Type, payload)
		d.addTo(topics.Events(category), "Every event of category "+category+".", declaration.Name)
		if declaration.CommandTopic != "" {
			d.addTo(topics.Commands(declaration.CommandTopic), "Commands to the "+declaration.CommandTopic+" adapter.", declaration.Name)
		}
	}
	if registry.Published(category) {
		name := category + ".state"
		d.addMessage(name, "Latest state of a stream of category "+category+"; no value: it is gone.", registry.StateType(category), nil)
		d.addTo(topics.State(category), "Latest state of every stream of category "+category+", compacted.", name)
	}
	return nil
}

func (d *document) addMessage(name, summary string, payload reflect.Type, shown any) {
	m := message{
		Name: name, Title: name, Summary: summary, ContentType: jsonMedia,
		Headers: reference{toSchemas + "headers"}, Payload: reference{toSchemas + name},
	}
	if shown != nil {
		m.Examples = []sample{{shown}}
	}
	d.Components.Messages[name] = m
	d.Components.Schemas[name] = schemaOf(payload)
}

func (d *document) addTo(topic, description, messageName string) {
	on, known := d.Channels[topic]
	if !known {
		on = channel{Address: topic, Description: description, Messages: map[string]reference{}}
		d.Channels[topic] = on
		d.Operations["publish."+topic] = operation{Action: "send", Channel: reference{toChannels + topic}}
	}
	on.Messages[messageName] = reference{toMessages + messageName}
}

// schemaOf describes a type as encoding/json writes it.
func schemaOf(t reflect.Type) *schema {
	switch t {
	case timeType:
		return &schema{Type: "string", Format: "date-time"}
	case moneyType:
		return &schema{Ref: toSchemas + "money"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return &schema{Type: "array", Items: schemaOf(t.Elem())}
	case reflect.Map:
		return &schema{Type: "object", Additional: schemaOf(t.Elem())}
	case reflect.Struct:
		return structSchema(t)
	}
	return &schema{Type: jsonType(t)}
}

func structSchema(t reflect.Type) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}}
	comments := commentsOf(t)
	for i := range t.NumField() {
		member := t.Field(i)
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		property := schemaOf(member.Type)
		if property.Ref == "" { // beside a reference nothing else counts
			property.Description = comments[member.Name]
		}
		property.Sensitive = member.Tag.Get("sensitive") == "true"
		s.Properties[name] = property
		if !strings.Contains(options, "omit") {
			s.Required = append(s.Required, name)
		}
	}
	return s
}
