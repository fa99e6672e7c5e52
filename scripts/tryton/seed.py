"""Fills a fresh Tryton database with a small company to work with.

    TRYTOND_CONFIG=FILE python3 scripts/tryton/seed.py DATABASE

Twelve products in two warehouses, two price lists, one customer that is named as the simulators' partner,
and one that buys by a price list. Nothing in it is anybody's.
"""
import datetime
import sys
from decimal import Decimal

from trytond.pool import Pool
from trytond.transaction import Transaction

PRODUCTS = [  # code, name, list price, on hand in the first and the second warehouse
    ('MUG-RED', 'Mug, red', '4.95', 120, 30),
    ('MUG-BLUE', 'Mug, blue', '4.95', 80, 0),
    ('LANTERN', 'Lantern, white metal', '12.50', 40, 12),
    ('CLOCK', 'Alarm clock, green', '3.75', 200, 50),
    ('BUNTING', 'Party bunting', '4.65', 300, 0),
    ('JAM-SET', 'Jam making set', '4.25', 60, 20),
    ('TIN-3', 'Cake tins, set of 3', '9.95', 35, 5),
    ('DOOR-MAT', 'Door mat', '7.95', 15, 0),
    ('LUNCH-BOX', 'Lunch box', '1.95', 500, 100),
    ('T-LIGHT', 'T-light holder', '2.55', 1000, 250),
    ('RULER', 'Wooden ruler', '0.85', 0, 0),
    ('SIGN', 'Metal sign', '2.10', 7, 0),
]


def fill():
    company = make_company()
    with Transaction().set_context(company=company.id):
        products = make_products(company)
        lists = make_price_lists(company)
        make_customers(lists)
        make_stock(company, products)


def make_company():
    pool = Pool()
    Currency, Party, Company, User = map(
        pool.get, ['currency.currency', 'party.party', 'company.company', 'res.user'])
    pound, = Currency.create([{
        'name': 'Pound Sterling', 'code': 'GBP', 'symbol': '£', 'numeric_code': '826',
        'rounding': Decimal('0.01'), 'digits': 2,
        'rates': [('create', [{'date': datetime.date(2020, 1, 1), 'rate': Decimal('1.0')}])],
    }])
    party, = Party.create([{'name': 'Example Gifts', 'addresses': [('create', [{'street': '1 Example Street', 'city': 'Exampleton'}])]}])
    company, = Company.create([{'party': party.id, 'currency': pound.id}])
    admin, = User.search([('login', '=', 'admin')])
    User.write([admin], {'companies': [('add', [company.id])], 'company': company.id})
    return company


def make_products(company):
    pool = Pool()
    Template, Uom = pool.get('product.template'), pool.get('product.uom')
    unit, = Uom.search([('symbol', '=', 'u')])
    templates = Template.create([{
        'name': name, 'code': code, 'type': 'goods', 'default_uom': unit.id, 'sale_uom': unit.id, 'salable': True,
        'list_price': Decimal(price), 'cost_price_method': 'fixed',
        'products': [('create', [{'cost_price': Decimal('1.0')}])],
    } for code, name, price, _, _ in PRODUCTS])
    return [template.products[0] for template in templates]


def make_price_lists(company):
    PriceList = Pool().get('product.price_list')
    return PriceList.create([{
        'name': name, 'company': company.id, 'unit': 'product_sale',
        'lines': [('create', lines)],
    } for name, lines in [
        ('trade', [{'sequence': 1, 'quantity': 50.0, 'formula': 'unit_price * 0.8'}, {'sequence': 2, 'formula': 'unit_price * 0.9'}]),
        ('outlet', [{'sequence': 1, 'formula': 'unit_price * 0.75'}]),
    ]])


def make_customers(lists):
    pool = Pool()
    Party, Term = pool.get('party.party'), pool.get('account.invoice.payment_term')
    Term.create([{'name': 'Paid', 'lines': [('create', [{'type': 'remainder'}])]}])
    address = {'street': '2 Example Street', 'city': 'Exampleton', 'invoice': True, 'delivery': True}
    Party.create([
        {'name': 'Channel demo', 'code': 'demo', 'addresses': [('create', [address])]},
        {'name': 'Channel trade', 'code': 'trade', 'sale_price_list': lists[0].id, 'addresses': [('create', [address])]},
    ])


def make_stock(company, products):
    pool = Pool()
    Location, Inventory = pool.get('stock.location'), pool.get('stock.inventory')
    first, = Location.search([('type', '=', 'warehouse')])
    entry, leaving, storage = Location.create([{'name': 'North ' + name, 'type': 'storage'} for name in ('input', 'output', 'storage')])
    Location.create([{
        'name': 'North', 'code': 'NORTH', 'type': 'warehouse',
        'input_location': entry.id, 'output_location': leaving.id, 'storage_location': storage.id,
        'lost_found_location': first.lost_found_location.id,
    }])
    for location, column in ((first.storage_location, 3), (storage, 4)):
        lines = [{'product': product.id, 'quantity': float(row[column])} for product, row in zip(products, PRODUCTS) if row[column]]
        inventory, = Inventory.create([{'company': company.id, 'location': location.id, 'lines': [('create', lines)]}])
        Inventory.confirm([inventory])


def main():
    database, = sys.argv[1:]
    Pool.start()
    with Transaction().start(database, 0, readonly=True):
        Pool(database).init()
    with Transaction().start(database, 1, context={'active_test': False}) as transaction:
        fill()
        transaction.commit()


if __name__ == '__main__':
    main()
