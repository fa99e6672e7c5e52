-- Records of legacy systems' feeds that can't be used, once each, with their last fault. One that the source
-- puts right goes by itself.

-- +goose Up
CREATE TABLE feed_rejects (
    feed     text        NOT NULL COLLATE "C",
    id       text        NOT NULL COLLATE "C", -- of the record, as its feed names it
    version  bigint      NOT NULL,             -- of the source; 0: it has none
    code     text        NOT NULL,
    detail   text        NOT NULL,
    times    bigint      NOT NULL,             -- that it was refused
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL,
    again    boolean     NOT NULL,             -- an operator wants it to be read once more
    PRIMARY KEY (feed, id)
);

-- +goose Down
DROP TABLE feed_rejects;
