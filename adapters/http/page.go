package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// The page for people is made of the API document and the table of problems, without scripts, so that
// it works in a browser that reaches nothing else.

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

type pageContent struct {
	Title, Version, Description string
	Groups                      []pageGroup
	Schemas                     []pageSchema
	Codes                       []pageCode
}

type pageGroup struct {
	Name, Description string
	Operations        []pageOperation
}

type pageOperation struct {
	Method, Path string
	*huma.Operation
	Secured bool
	Body    string // name of its schema
	Answers []pageAnswer
}

type pageAnswer struct{ Status, Description, Body string }

type pageSchema struct{ Name, JSON string }

type pageCode struct {
	Code   string
	Status int
	Title  string
}

func renderPage(document *huma.OpenAPI) ([]byte, error) {
	content := pageContent{Title: document.Info.Title, Version: document.Info.Version, Description: document.Info.Description, Codes: pageCodes()}
	for _, tag := range document.Tags {
		content.Groups = append(content.Groups, pageGroup{Name: tag.Name, Description: tag.Description, Operations: operationsOf(document, tag.Name)})
	}
	schemas := document.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		data, err := json.MarshalIndent(schemas[name], "", "  ")
		if err != nil {
			return nil, err
		}
		content.Schemas = append(content.Schemas, pageSchema{Name: name, JSON: string(data)})
	}
	var page bytes.Buffer
	err := pageTemplate.Execute(&page, content)
	return page.Bytes(), err
}

func operationsOf(document *huma.OpenAPI, tag string) []pageOperation {
	var list []pageOperation
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		item := document.Paths[path]
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if op == nil || !slices.Contains(op.Tags, tag) {
				continue
			}
			shown := pageOperation{Method: op.Method, Path: op.Path, Operation: op, Secured: len(op.Security) > 0}
			if op.RequestBody != nil {
				shown.Body = schemaIn(op.RequestBody.Content)
			}
			for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
				shown.Answers = append(shown.Answers, pageAnswer{Status: status, Description: op.Responses[status].Description, Body: schemaIn(op.Responses[status].Content)})
			}
			list = append(list, shown)
		}
	}
	return list
}

// schemaIn names the component that a body is.
func schemaIn(content map[string]*huma.MediaType) string {
	for _, media := range content {
		return media.Schema.Ref[strings.LastIndex(media.Schema.Ref, "/")+1:]
	}
	return ""
}

func pageCodes() []pageCode {
	var list []pageCode
	for _, code := range slices.Sorted(maps.Keys(meanings)) {
		list = append(list, pageCode{Code: string(code), Status: meanings[code].status, Title: meanings[code].title})
	}
	slices.SortStableFunc(list, func(a, b pageCode) int { return strings.Compare(strconv.Itoa(a.Status), strconv.Itoa(b.Status)) })
	return list
}
