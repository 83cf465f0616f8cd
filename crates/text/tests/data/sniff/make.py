#!/usr/bin/env python3
"""Writes cases.json: small files, what DuckDB's sniffer says of each (pip install duckdb==2.0.0), and where dipper
answers otherwise on purpose, what it answers and why. tests/sniff.rs reads it."""
import json
import os
import tempfile

import duckdb

CASES = {
    'semicolon_decimal_comma':'id;price;name\n1;1,50;a\n2;2,75;b\n3;3,00;c\n',
    'pipe':'a|b|c\n1|2|3\n4|5|6\n',
    'tab':'a\tb\tc\n1\tx y\t3\n4\tz\t6\n',
    'ctrl_a':'a\x01b\x01c\n1\x012\x013\n',
    'space':'a b c\n1 2 3\n4 5 6\n',
    'colon':'a:b:c\n1:2:3\n4:5:6\n',
    'one_col':'name\nalice\nbob\n',
    'one_col_num':'1\n2\n3\n',
    'no_header':'1,alice,2024-01-01\n2,bob,2024-01-02\n',
    'no_header_all_str':'alice,berlin\nbob,paris\ncarol,rome\n',
    'header_all_str':'name,city\nalice,berlin\nbob,paris\n',
    'header_only':'a,b,c\n',
    'header_only_nonl':'a,b,c',
    'empty':'',
    'only_newline':'\n',
    'single_num_row':'1,2,3\n',
    'quoted':'id,name\n1,"Smith, John"\n2,"O""Brien"\n',
    'quoted_newline':'id,text\n1,"line one\nline two"\n2,"x"\n',
    'single_quote':"id;name\n1;'a;b'\n2;'c;d'\n",
    'backslash_escape':'id,name\n1,"a \\"quoted\\" b"\n2,"c"\n',
    'quoted_header':'"id","full name"\n"1","a"\n"2","b"\n',
    'comment':'# a file\n# more\na,b\n1,2\n3,4\n',
    'comment_mid':'a,b\n1,2\n# note\n3,4\n',
    'preamble':'Report of sales\nGenerated 2024\n\nid,name,price\n1,a,1.5\n2,b,2.5\n3,c,3.5\n',
    'preamble2':'Title\nid,name,price\n1,a,1.5\n2,b,2.5\n3,c,3.5\n',
    'dup_names':'a,a,b,a\n1,2,3,4\n',
    'dup_case':'a,A,b\n1,2,3\n',
    'empty_name':'a,,c\n1,2,3\n4,5,6\n',
    'index_col':',a,b\n0,1,2\n1,3,4\n',
    'crlf':'a,b\r\n1,2\r\n3,4\r\n',
    'cr':'a,b\r1,2\r3,4\r',
    'bom':'\ufeffa,b\n1,2\n',
    'ragged_short':'a,b,c\n1,2,3\n4,5\n6,7,8\n',
    'ragged_long':'a,b\n1,2\n3,4,5\n6,7\n',
    'trailing_delim':'a,b,\n1,2,\n3,4,\n',
    'trailing_delim_data':'1|2|3|\n4|5|6|\n',
    'null_strings':'id,v\n1,NULL\n2,5\n3,\n',
    'na':'id,v\n1,NA\n2,5\n',
    'slashN':'id,v\n1,\\N\n2,5\n',
    'bools':'a,b\ntrue,1\nfalse,0\n',
    'dates':'d,e\n2024-01-02,03/04/2024\n2024-12-31,25/12/2024\n',
    'us_dates':'d,e\n1,12/31/2024\n2,01/05/2024\n',
    'ts':'t,u\n2024-01-02 03:04:05,2024-01-02T03:04:05.123456\n2024-01-03 00:00:00,2024-01-02T03:04:05Z\n',
    'tstz':'t,u\n2024-01-02 03:04:05+00,a\n2024-01-03 00:00:00+01,b\n',
    'mixed_num':'a\n1\n2.5\nx\n',
    'leading_zero':'zip,n\n01234,1\n00501,2\n',
    'spaces_after':'a, b, c\n1, 2, 3\n4, 5, 6\n',
    'num_header':'2019,2020,2021\n1,2,3\n4,5,6\n',
    'num_header_str':'id,2020,2021\na,2,3\nb,5,6\n',
    'text_commas':'id|text\n1|hello, world, a, b\n2|foo, bar, c, d\n3|x, y, z, w\n',
    'json_field':'id,doc\n1,"{""a"": 1, ""b"": [1,2]}"\n2,"{""a"": 2}"\n',
    'url':'id,url\n1,http://a.b/c?d=1;e=2\n2,http://x.y/z?q=3;r=4\n',
    'multi_delim':'a||b||c\n1||2||3\n4||5||6\n',
    'quote_in_unquoted':'id,size\n1,5" pipe\n2,7" pipe\n',
    'all_null_col':'a,b\n1,\n2,\n',
    'blank_lines':'a,b\n\n1,2\n\n3,4\n',
    'blank_one_col':'a\n1\n\n3\n',
    'unicode':'名前,年齢\n太郎,5\n花子,6\n',
    'big_int':'a\n9223372036854775807\n9223372036854775808\n',
    'exp':'a,b\n1e5,.5\n2.5E-3,1.\n',
    'negative':'a,b\n-1,+2\n-3,4\n',
    'percent':'a,b\n10%,$5\n20%,$6\n',
    'time':'a,b\n10:00:00,1\n11:30:00,2\n',
    'log':'2024-01-02 10:00:00,INFO,started\n2024-01-02 10:00:01,WARN,slow\n',
    'wide_vary':'k;v\na;1,2,3\nb;4,5,6\nc;7,8,9\n',
    'quote_whole_single':'"a"\n"b,c"\n"d,e"\n',
    'semicolon_quoted':'"a";"b"\n"1;2";"x"\n"3;4";"y"\n',
    'header_type_same_date':'2024-01-01,2024-01-02\n2024-02-01,2024-02-02\n',
    'missing_last_newline':'a,b\n1,2\n3,4',
    'spaces_in_header':'First Name,Last Name\nA,B\nC,D\n',
    'header_num_mix':'name,1\na,2\nb,3\n',
    'ws_padded':'a  ,b  \n1  ,2  \n3  ,4  \n',
    'euro':'datum;betrag\n01.02.2024;1.234,50\n15.02.2024;99,00\n',
    'hash_field':'a,b\n#1,2\n#3,4\n',
    'two_rows_str':'x,y\nz,w\n',
    'quoted_numbers':'a,b\n"1","2"\n"3","4"\n',
    'quote_spaces':'a,b\n"x" ,"y"\n"z" ,"w"\n',
    'nl_header_quoted':'"a\nb",c\n1,2\n3,4\n',
    'footer':'a,b\n1,2\n3,4\nTotal\n',
    'lineorder':'1,1,7381,155190,828,19960102,5-LOW,0,17,2116823,17366547,4,2032150,74711,2,19960212,TRUCK\n1,2,7381,67310,163,19960102,5-LOW,0,36,4598316,17366547,9,4184467,76638,6,19960228,MAIL\n',
    'iris':'sepal_length,sepal_width,species\n5.1,3.5,setosa\n4.9,3.0,setosa\n7.0,3.2,versicolor\n',
    'keys_eq':'a=1,b=2\na=3,b=4\n',
    'log_spaces':'10.0.0.1 - frank 200 "GET /a HTTP/1.0" 2326\n10.0.0.2 - anna 404 "GET /b, c HTTP/1.0" 17\n',
    'tilde':'a~b~c\n1~2~3\n4~5~6\n',
    'double_colon':'1::1193::5::978300760\n1::661::3::978302109\n',
    'apostrophes':"id,text\n1,it's\n2,don't\n3,'tis\n",
    'quoted_empty':'id,name\n1,""\n2,"x"\n',
    'quoted_delims_many':'name,addr,n\n"A, B","C, D, E",1\n"F","G, H",2\n',
    'windows_path':'id,path\n1,"C:\\dir\\"\n2,"D:\\x"\n',
    'price_currency':'sku;price\nA-1;12.50\nB-2;7.00\n',
    'scientific_mix':'x,y\n1,1.5\n2,2e3\n3,NaN\n',
    'hash_header':'#id,name\n1,a\n2,b\n',
    'preamble_commas':'Export, v2\nid,name,price\n1,a,2.5\n2,b,3.5\n3,c,1.5\n',
    'dates_only':'2024-01-01\n2024-01-02\n',
    'bool_words':'flag,n\nTRUE,1\nFalse,2\n',
    'decimals':'price,qty\n10.00,1\n9.99,2\n',
    'geo':'lat;lon;name\n52.5200;13.4050;Berlin\n48.1372;11.5756;"München; Bayern"\n',
    'tpch_customer':'1|Customer#000000001|IVhzIApeRb ot,c,E|15|25-989-741-2988|711.56|BUILDING|to the even, regular platelets|\n2|Customer#000000002|XSTf4,NCwDVaWNe6tEgvwfmRchLXak|13|23-768-687-3665|121.65|AUTOMOBILE|l accounts. blithely ironic|\n',
    'wide_text':'id\tcomment\n1\tI said: "no", then left, angry\n2\tfine; ok\n',
    'iso_fraction':'t\n2024-01-01T00:00:00.5\n2024-01-01T00:00:01.25\n',
    'neg_double':'v\n-1.5\n-.5\n3\n',
    'mixed_int_double':'v,w\n1,2\n2.5,3\n3,4\n',
    'uuid_ip':'id,ip\n550e8400-e29b-41d4-a716-446655440000,10.0.0.1\n550e8400-e29b-41d4-a716-446655440001,10.0.0.2\n',
    'phone':'name,phone\nA,+49 30 1234\nB,+1 555 0100\n',
    'long_header_short_rows':'a,b,c\n1,2\n3,4\n5,6\n',
    'header_without_trailing_comma':'a,b\n1,2,\n3,4,\n',
    'prose':'It was late, and cold.\nNobody came; nothing, nothing at all, moved.\nThen: rain.\n',
    'emoji':'a,b\n1,😀\n2,日本\n',
    'semicolon_header_comma_text':'id;note\n1;a, b\n2;c, d\n3;e, f\n',
}

# name: (why, what differs). Keys: delimiter, quote, escape, comment, skip, header, columns.
DIFFERS = {
    "ctrl_a": (
        "^A is what Hive writes",
        {"delimiter": "\x01", "columns": [["a", "BIGINT"], ["b", "BIGINT"], ["c", "BIGINT"]]},
    ),
    "space": (
        "three columns and more in every line are a table; reading them as one date is not what anyone means",
        {"delimiter": " ", "columns": [["a", "BIGINT"], ["b", "BIGINT"], ["c", "BIGINT"]]},
    ),
    "only_newline": ("nothing there names a column", {"header": False}),
    "comment": ("the same for files of several, with comments further down too", {"comment": "#", "skip": 0}),
    "ragged_short": (
        "a short record is NULLs, as everywhere else",
        {"delimiter": ",", "columns": [["a", "BIGINT"], ["b", "BIGINT"], ["c", "BIGINT"]]},
    ),
    "ragged_long": (
        "the columns are clear; the long record is an error that names its line",
        {"delimiter": ",", "columns": [["a", "BIGINT"], ["b", "BIGINT"]]},
    ),
    "footer": (
        "the columns are clear; the last line is a short record",
        {"delimiter": ",", "columns": [["a", "STRING"], ["b", "BIGINT"]]},
    ),
    "long_header_short_rows": (
        "the header says what the columns are",
        {"delimiter": ",", "columns": [["a", "BIGINT"], ["b", "BIGINT"], ["c", "STRING"]]},
    ),
    "header_without_trailing_comma": (
        "records that end in a comma have their header all the same",
        {"skip": 0, "header": True, "columns": [["a", "BIGINT"], ["b", "BIGINT"], ["c3", "STRING"]]},
    ),
    "null_strings": ("NULL is all that keeps v from numbers", {"columns": [["id", "BIGINT"], ["v", "BIGINT"]]}),
    "na": ("NA is all that keeps v from numbers", {"columns": [["id", "BIGINT"], ["v", "BIGINT"]]}),
    "slashN": ("\\N is NULL in every export", {"columns": [["id", "BIGINT"], ["v", "BIGINT"]]}),
    "dates": (
        "a year of four digits in front is one in every file, beside other dates",
        {"columns": [["d", "DATE"], ["e", "DATE"]]},
    ),
    "text_commas": (
        "| makes every line two fields, nothing needs to be skipped",
        {"delimiter": "|", "skip": 0, "columns": [["id", "BIGINT"], ["text", "STRING"]]},
    ),
    "wide_vary": (
        "; makes every line two fields, nothing needs to be skipped",
        {"delimiter": ";", "skip": 0, "header": True, "columns": [["k", "STRING"], ["v", "STRING"]]},
    ),
    "log_spaces": (
        "fields between blanks, one of them quoted",
        {
            "delimiter": " ",
            "skip": 0,
            "header": False,
            "columns": [
                ["c1", "STRING"], ["c2", "STRING"], ["c3", "STRING"],
                ["c4", "BIGINT"], ["c5", "STRING"], ["c6", "BIGINT"],
            ],
        },
    ),
    "tilde": ("~ is in use too", {"delimiter": "~", "columns": [["a", "BIGINT"], ["b", "BIGINT"], ["c", "BIGINT"]]}),
    "multi_delim": (
        "a bar that never stands alone is half a delimiter",
        {"delimiter": "||", "columns": [["a", "BIGINT"], ["b", "BIGINT"], ["c", "BIGINT"]]},
    ),
    "double_colon": (
        ":: is in use too",
        {
            "delimiter": "::",
            "header": False,
            "columns": [["c1", "BIGINT"], ["c2", "BIGINT"], ["c3", "BIGINT"], ["c4", "BIGINT"]],
        },
    ),
}


def sniff(text):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "case.csv")
        with open(path, "w", newline="") as file:
            file.write(text)
        relation = duckdb.sql(f"select * from sniff_csv('{path}')")
        names = [column[0] for column in relation.description]
        row = dict(zip(names, relation.fetchall()[0]))
    plain = lambda value: "" if value == "(empty)" else value
    return {
        "delimiter": row["Delimiter"],
        "quote": plain(row["Quote"]),
        "escape": plain(row["Escape"]),
        "comment": plain(row["Comment"]),
        "skip": row["SkipRows"],
        "header": row["HasHeader"],
        "columns": [[column["name"], column["type"]] for column in row["Columns"]],
    }


cases = []
for name, text in CASES.items():
    case = {"name": name, "text": text, "duckdb": sniff(text)}
    if name in DIFFERS:
        case["why"], case["dipper"] = DIFFERS[name]
    cases.append(case)
with open("cases.json", "w") as file:
    json.dump(cases, file, ensure_ascii=False, indent=1)
    file.write("\n")
