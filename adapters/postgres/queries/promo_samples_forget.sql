-- What was done before a time while no promo was on.
DELETE FROM promo_samples WHERE promo = '' AND slot < $1
