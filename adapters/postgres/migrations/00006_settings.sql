-- What operators set while the platform runs, for all instances.

-- +goose Up
CREATE TABLE settings (
    name       text        PRIMARY KEY COLLATE "C",
    value      text        NOT NULL,
    changed_by text        NOT NULL,
    changed_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE settings;
