SELECT report FROM promo_reports WHERE $1 = '' OR promo = $1 ORDER BY ended DESC LIMIT 1
