"""Pseudonymized tables: what in a table is personal, why, and how it is replaced before you share it.

>>> key = "of the study of November, room 7"
>>> state = client.state_frame(paths=["/3311/*"]).mirror.pseudonymize(key)
>>> state[["endpoint_name", "path"]].values.tolist()
[['name-yv60x8ph8361', '/3311/0/5850'], ['name-yv60x8ph8361', '/3311/0/5851']]
>>> client.write_value(light, "/3311/0/5851", 40)
>>> drift = client.state_frame().mirror.drift().mirror.pseudonymize(key)
>>> set(drift["device_id"]) <= set(state["device_id"])
True

The mirror can hold personal data about the people who own the devices, even if it contains no names of people. Anyone
who knows one reading of a device can find all its rows by its id.

``frame.mirror.pseudonymize(key)`` returns a table in which pseudonyms replace ids and names. :func:`pseudonymize` also
accepts Arrow and Polars tables. In a shell, use ``mirror snapshot FILE --pseudonymize``.

Pseudonyms and the key
----------------------

A pseudonym consists of its kind, a hyphen, and twelve digits and letters, for texts of any length. It is computed
from the key and the text with HMAC-SHA-256. With the same key, the same text of the same kind has the same pseudonym in
every table, so you can join the tables. An id and a name with the same text have different pseudonyms.

Without the key, no one can map a pseudonym to a device. Anyone with the key can test guessed names. So the key is a
secret: use 16 bytes or more that cannot be guessed, and do not store it with the tables. Destroy it when you need no
more tables with the same pseudonyms. No table, error message or ``repr`` contains it.

Columns
-------

These columns are replaced in every table, in its index, and in the column names of wide tables:

=================  ==============  ==================================================================
column             becomes         why
=================  ==============  ==================================================================
device_id          device-…        identifies a device and so its owner
endpoint_name      name-…          chosen by people: names, rooms, addresses, serial numbers
custom_attributes  attribute-…     written by people about a device: rooms, owners, contracts
async_id           request-…       chosen by the application, with any content
acknowledged_by    person-…        names the person or program that acknowledged a failed write
uid                entry-…         identifies an entry in the log of the service
=================  ==============  ==================================================================

Resources
---------

The values of these resources are replaced: reported, desired and requested values, as numbers, texts, booleans and
payloads, in every instance:

==================  ==================================  ==============================  ================================
becomes             values                              object/resource                 why
==================  ==================================  ==============================  ================================
serial-…            serial numbers                      3/2, 3416/59, 10242/2,          one device; sales and warranties
                                                        10243/2, 10257/2, 10315/3,      lead to its owner
                                                        10316/2
sim-…               numbers of SIM cards, modems and    504/11, 504/14, 505/14, 508/0,  a contract with a person
                    subscribers: ICCID, EID, IMEI,      508/1, 3351/2, 3351/3, 3351/4,
                    IMSI, MSISDN                        3412/21, 3412/22, 3443/1,
                                                        10308/1, 10308/2, 10308/3,
                                                        10330/1, 10330/2
host-…              identities of hosts and of the      16/0, 24/6, 25/0, 25/1,         one device, under another name
                    devices of a gateway                10299/2
address-…           addresses in networks: IP, MAC,     4/4, 4/5, 10/0, 11/15, 11/18,   a household; public lists lead
                    BSSID, telephone                    11/19, 11/20, 12/4, 12/26,      from a BSSID to a street
                                                        12/32, 3412/2, 3412/3, 3412/4,
                                                        3412/5, 3412/6, 3412/7,
                                                        3412/8, 3447/22, 3447/23,
                                                        3447/25, 3447/26, 3447/27
account-…           names of networks and accounts:     4/7, 9/14, 11/0, 11/1, 11/5,    chosen by people, or assigned to
                    APN, SSID, user                     12/5, 24/7, 3447/20, 18830/4    one customer
cell-…              cells and areas of mobile networks  4/8, 4/12, 13/5                 public lists lead from a cell to
                                                                                        a place
package-…           addresses of packages to load       5/1, 9/3                        may name one device, or
                                                                                        contain its credentials
written-…           texts that people write:            any/5750                        names of rooms and people
                    application type
tenths of a degree  coordinates                         6/0, 6/1, any/5514, any/5515,   where people live, work and go
                                                        any/6051, any/6052, 3430/1,
                                                        3430/2, 3430/29, 3430/30,
                                                        3430/34, 3430/35
nothing             altitudes and velocities            6/2, 6/4, any/5517, 3430/3,     can restore the exact location,
                                                        3430/31, 3430/36                or reveal a route
nothing             texts on displays, and audio clips  any/5527, any/5522              communication of people
nothing             passwords and keys                  9/15, 10/2, 11/6, 16/2, 24/8,   give access to anyone who reads
                                                        18830/5, 3447/28, 12/17,        them
                                                        12/18, 12/21, 12/22, 12/23,
                                                        12/24, 12/25, 12/28
==================  ==================================  ==============================  ================================

In a row of such a resource, every column of numbers, booleans, texts or payloads is treated as its value. Exceptions
are columns that are known to contain something else: times, counts, revisions, and the other columns of this package
that do not depend on values. A column of your own, such as a floor, is replaced in these rows too. To keep it,
pseudonymize both tables with one key, and join them afterwards.

Coordinates are rounded to tenths of a degree, which is about 11 km. Sums, rates and columns of your own may have
another scale, in which rounding hides nothing, so they are left empty.

A declaration with ``personal=`` (:func:`~mirror_sdk.register_object`) overrides this list. Texts and bytes of
undeclared resources are replaced as well, because their content is unknown; numbers and booleans of these resources
stay.

Columns of your own
-------------------

A text in a column that this package does not define is always replaced, regardless of the column's name. The id of a
device gets the pseudonym that it has in ``device_id``. Any other text in a column ``device`` gets the pseudonym that it
has in ``endpoint_name``. All other texts become ``text-…``. Numbers, booleans and times stay. To keep such a column,
pseudonymize first and join it afterwards.

Metadata
--------

The metadata keeps its times and counts. The address of the server is replaced. The selection is removed, so the table
cannot be refreshed. The metadata contains a report of all replacements, as ``pseudonymized``:

>>> report = pd.DataFrame(state.attrs["mirror"]["pseudonymized"])
>>> report[["column", "how", "cells"]].values.tolist()
[['device_id', 'identifier', 2], ['endpoint_name', 'identifier', 2], ['acknowledged_by', 'identifier', 0]]

Replaced texts within other texts
---------------------------------

Other texts, such as the value of another resource or the reason of a plan, are searched for replaced texts. Such a text
is replaced as a whole if it is an id, or if it contains an id, a name or another text that was replaced in this table.
Names of fewer than four characters are found only as whole texts. Names of columns and indexes are searched too. A
column with lists or structures in its cells is rejected. ``also=`` adds texts to search for, such as names of devices
that are not in the table.

Limits
------

A pseudonym is not anonymity. You decide who may have a table. Pseudonymization does not cover:

- A name that a text contains in another spelling, or that occurs nowhere else in the table.
- Numbers and times of your own that are personal in themselves: leave them out.
- Pictures, files and notebooks that were made from the table before.
- The information in measurements. Times at which a light is on, a door opens or power is used show when people are at
  home. A few times that are known from elsewhere identify a device, and with it all of its rows. Times stay unchanged,
  and rows stay in order.
- Rare firmware, time zones and models, which also identify a device.
"""

from mirror_sdk.privacy.personal import PERSONAL_COLUMNS, PERSONAL_RESOURCES, PersonalColumn, PersonalResource
from mirror_sdk.privacy.pseudonymizing import pseudonymize

__all__ = [
    "PERSONAL_COLUMNS",
    "PERSONAL_RESOURCES",
    "PersonalColumn",
    "PersonalResource",
    "pseudonymize",
]
