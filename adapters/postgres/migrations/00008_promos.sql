-- What processes did during a promo, and the reports of promos. The promo itself is a setting.

-- +goose Up
CREATE TABLE promo_samples (
    promo   text        NOT NULL COLLATE "C",
    slot    timestamptz NOT NULL,
    process text        NOT NULL COLLATE "C",
    sample  json        NOT NULL,
    PRIMARY KEY (promo, slot, process)
);

CREATE TABLE promo_reports (
    promo  text        PRIMARY KEY COLLATE "C",
    ended  timestamptz NOT NULL,
    report json        NOT NULL
);
CREATE INDEX promo_reports_ended ON promo_reports (ended);

-- +goose Down
DROP TABLE promo_reports, promo_samples;
